use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};
use zeroize::Zeroizing;

/// A token, private key or password.
///
/// `Debug` prints `[redacted]`, and neither `Display` nor `Serialize` is implemented: code that sends a secret (a
/// header, a plugin's output) calls [`expose`](Self::expose). Among the public types only the wire types of
/// [`exec`](crate::exec) and [`image`](crate::image) serialise their secrets. The memory is wiped on drop.
///
/// ```
/// use credlet_api::Secret;
///
/// let token = Secret::new("hunter2");
/// assert_eq!(format!("{token:?}"), "[redacted]");
/// assert_eq!(token.expose(), "hunter2");
/// ```
///
/// ```compile_fail
/// serde_json::to_string(&credlet_api::Secret::new("hunter2"));
/// ```
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps the text. A `String` is moved, not copied.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the text. Every use of a secret is a call of this method.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// Compares in constant time for secrets of equal length.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.0.as_bytes(), other.0.as_bytes());
        a.len() == b.len() && a.iter().zip(b).fold(0, |differing, (x, y)| differing | (x ^ y)) == 0
    }
}

impl Eq for Secret {}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SecretVisitor;

        impl Visitor<'_> for SecretVisitor {
            type Value = Secret;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Secret, E> {
                Ok(Secret::new(text))
            }

            fn visit_string<E>(self, text: String) -> Result<Secret, E> {
                Ok(Secret::new(text))
            }
        }

        deserializer.deserialize_string(SecretVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_is_redacted() {
        #[derive(Debug)]
        #[expect(dead_code, reason = "read by Debug only")]
        struct Outer {
            token: Option<Secret>,
        }
        let outer = Outer { token: Some(Secret::new("hunter2")) };
        assert_eq!(format!("{outer:?}"), "Outer { token: Some([redacted]) }");
        assert!(!format!("{outer:#?}").contains("hunter2"));
    }

    #[test]
    fn compares_by_value() {
        assert_eq!(Secret::new("a"), Secret::new("a"));
        assert_ne!(Secret::new("a"), Secret::new("b"));
        assert_ne!(Secret::new("a"), Secret::new("aa"));
        assert_ne!(Secret::new(""), Secret::new("a"));
    }

    #[test]
    fn deserialises_from_strings_only() {
        assert_eq!(serde_json::from_str::<Secret>(r#""x""#).unwrap().expose(), "x");
        assert!(serde_json::from_str::<Secret>("5").is_err());
    }
}

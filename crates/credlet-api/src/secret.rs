use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};
use zeroize::Zeroizing;

/// Text that must never be shown: a token, a private key, a password.
///
/// `Debug` prints `[redacted]`, there is no `Display`, and there is no `Serialize`: the few places where a secret
/// leaves us (a header, a plugin's stdout) call [`expose`](Self::expose), so they can be found by searching for it.
/// The memory is wiped on drop.
///
/// ```
/// use credlet_api::Secret;
///
/// let token = Secret::new("hunter2");
/// assert_eq!(format!("{token:?}"), "[redacted]");
/// assert_eq!(token.expose(), "hunter2");
/// ```
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text over; a `String` is moved in, not copied.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself. Every call marks a place where it leaves our protection.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is no text at all.
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

/// Looks at every byte whatever it finds, so that the time taken tells nothing about where two secrets differ.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.0.as_bytes(), other.0.as_bytes());
        a.len() == b.len() && a.iter().zip(b).fold(0, |differing, (x, y)| differing | (x ^ y)) == 0
    }
}

impl Eq for Secret {}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
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

        deserializer.deserialize_string(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_formatting_shows_the_text() {
        #[derive(Debug)]
        #[expect(dead_code, reason = "read by Debug only")]
        struct Above {
            token: Option<Secret>,
        }
        let above = Above { token: Some(Secret::new("hunter2")) };
        assert_eq!(format!("{above:?}"), "Above { token: Some([redacted]) }");
        assert!(!format!("{above:#?}").contains("hunter2"));
    }

    #[test]
    fn secrets_are_compared_by_value() {
        assert_eq!(Secret::new("a"), Secret::new("a"));
        assert_ne!(Secret::new("a"), Secret::new("b"));
        assert_ne!(Secret::new("a"), Secret::new("aa"));
        assert_ne!(Secret::new(""), Secret::new("a"));
    }

    #[test]
    fn only_a_string_becomes_a_secret() {
        assert_eq!(serde_json::from_str::<Secret>(r#""x""#).unwrap().expose(), "x");
        assert!(serde_json::from_str::<Secret>("5").is_err());
    }
}

//! PKCS#11 URIs (RFC 7512): `pkcs11:token=lab;object=kube?pin-source=/run/pin`.

use std::fmt;
use std::path::{Path, PathBuf};

use credlet_api::percent_decode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, percent_encode_byte};

use super::PinSource;

/// Characters outside the unreserved set of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A PKCS#11 URI. An attribute that is `None` matches any value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pkcs11Uri {
    /// Label of the token.
    pub token: Option<String>,
    /// Manufacturer of the token.
    pub manufacturer: Option<String>,
    /// Serial number of the token.
    pub serial: Option<String>,
    /// Model of the token.
    pub model: Option<String>,
    /// Id of the slot.
    pub slot_id: Option<u64>,
    /// Description of the slot.
    pub slot_description: Option<String>,
    /// Manufacturer of the slot.
    pub slot_manufacturer: Option<String>,
    /// Manufacturer of the library.
    pub library_manufacturer: Option<String>,
    /// Description of the library.
    pub library_description: Option<String>,
    /// Version of the library: `2` or `2.6`.
    pub library_version: Option<String>,
    /// Label of the key.
    pub object: Option<String>,
    /// Id of the key.
    pub id: Option<Vec<u8>>,
    /// Source of the PIN.
    pub pin_source: Option<PinSource>,
    /// Path of the library.
    pub module_path: Option<PathBuf>,
    /// Name of the library, without `lib` and without `.so`.
    pub module_name: Option<String>,
}

impl Pkcs11Uri {
    /// Parses a URI.
    ///
    /// An unknown attribute in the path is an error: it restricts the matching keys, so without it another key might be used. An unknown
    /// attribute in the query is ignored, as the RFC requires.
    ///
    /// # Errors
    /// If the URI is invalid, contains a PIN, or has a `type` other than that of a key.
    pub fn parse(text: &str) -> Result<Self, Pkcs11UriError> {
        let rest = text.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("pkcs11:")).map(|_| &text[7..]);
        let rest = rest.ok_or(Pkcs11UriError::Scheme)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut uri = Self::default();
        let mut kind = None;
        for attribute in path.split(';').filter(|attribute| !attribute.is_empty()) {
            let (name, value) = pair(attribute, PATH)?;
            match name {
                "token" => once(&mut uri.token, name, decode_utf8(name, value)?)?,
                "manufacturer" => once(&mut uri.manufacturer, name, decode_utf8(name, value)?)?,
                "serial" => once(&mut uri.serial, name, decode_utf8(name, value)?)?,
                "model" => once(&mut uri.model, name, decode_utf8(name, value)?)?,
                "slot-description" => once(&mut uri.slot_description, name, decode_utf8(name, value)?)?,
                "slot-manufacturer" => once(&mut uri.slot_manufacturer, name, decode_utf8(name, value)?)?,
                "library-manufacturer" => once(&mut uri.library_manufacturer, name, decode_utf8(name, value)?)?,
                "library-description" => once(&mut uri.library_description, name, decode_utf8(name, value)?)?,
                "object" => once(&mut uri.object, name, decode_utf8(name, value)?)?,
                "id" => once(&mut uri.id, name, value)?,
                "slot-id" => once(&mut uri.slot_id, name, number(name, &decode_utf8(name, value)?)?)?,
                "library-version" => once(&mut uri.library_version, name, version(decode_utf8(name, value)?)?)?,
                "type" => once(&mut kind, name, decode_utf8(name, value)?)?,
                name => return Err(Pkcs11UriError::Unknown { name: name.to_owned() }),
            }
        }
        if let Some(kind) = kind.filter(|kind| kind != "private" && kind != "cert") {
            return Err(Pkcs11UriError::Type { kind });
        }
        for attribute in query.split('&').filter(|attribute| !attribute.is_empty()) {
            let (name, value) = pair(attribute, QUERY)?;
            match name {
                name if name.eq_ignore_ascii_case("pin-value") => return Err(Pkcs11UriError::Pin),
                "pin-source" => once(&mut uri.pin_source, name, PinSource::parse(&decode_utf8(name, value)?)?)?,
                "module-path" => once(&mut uri.module_path, name, absolute(name, decode_utf8(name, value)?)?)?,
                "module-name" => once(&mut uri.module_name, name, file_name(decode_utf8(name, value)?)?)?,
                _ => {}
            }
        }
        Ok(uri)
    }
}

/// Writes the path attributes. The query, which may contain the source of the PIN, is left out.
impl fmt::Display for Pkcs11Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot_id = self.slot_id.map(|id| id.to_string());
        let attributes = [
            ("library-manufacturer", &self.library_manufacturer),
            ("library-description", &self.library_description),
            ("library-version", &self.library_version),
            ("slot-manufacturer", &self.slot_manufacturer),
            ("slot-description", &self.slot_description),
            ("slot-id", &slot_id),
            ("manufacturer", &self.manufacturer),
            ("model", &self.model),
            ("serial", &self.serial),
            ("token", &self.token),
            ("object", &self.object),
        ];
        let texts = attributes.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?.as_bytes())));
        f.write_str("pkcs11:")?;
        for (at, (name, value)) in texts.chain(self.id.iter().map(|id| ("id", &**id))).enumerate() {
            write!(f, "{}{name}=", if at == 0 { "" } else { ";" })?;
            // The RFC recommends to escape all bytes of an id.
            match name {
                "id" => value.iter().try_for_each(|byte| f.write_str(percent_encode_byte(*byte)))?,
                _ => write!(f, "{}", percent_encode(value, RESERVED))?,
            }
        }
        Ok(())
    }
}

/// Characters besides letters and digits that need no escape in the path.
const PATH: &[u8] = b"-._~:[]@!$'()*+,=&";
/// Characters besides letters and digits that need no escape in the query.
const QUERY: &[u8] = b"-._~:[]@!$'()*+,=/?|";

/// Parses an attribute. Returns its name and the decoded bytes of its value.
fn pair<'a>(attribute: &'a str, allowed: &[u8]) -> Result<(&'a str, Vec<u8>), Pkcs11UriError> {
    let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
    // Vendor attributes may have capital letters. Names are case-sensitive: `Token` is another attribute than `token`.
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || !attribute.contains('=') || !name.bytes().all(known) {
        return Err(Pkcs11UriError::Syntax);
    }
    let wrong = || Pkcs11UriError::Escape { name: name.to_owned() };
    let valid = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'%' || allowed.contains(&byte));
    let decoded = percent_decode(value).filter(|_| valid).ok_or_else(wrong)?;
    Ok((name, decoded.to_vec()))
}

fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), Pkcs11UriError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Pkcs11UriError::Twice { name: name.to_owned() }),
    }
}

fn decode_utf8(name: &str, value: Vec<u8>) -> Result<String, Pkcs11UriError> {
    let text = String::from_utf8(value).map_err(|_| Pkcs11UriError::Value { name: name.to_owned() })?;
    if text.contains('\0') { Err(Pkcs11UriError::Value { name: name.to_owned() }) } else { Ok(text) }
}

fn number(name: &str, text: &str) -> Result<u64, Pkcs11UriError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| Pkcs11UriError::Value { name: name.to_owned() })
}

fn version(text: String) -> Result<String, Pkcs11UriError> {
    let part = |part: &str| !part.is_empty() && part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    let (major, minor) = text.split_once('.').unwrap_or((&text, "0"));
    let right = part(major) && part(minor);
    if right { Ok(text) } else { Err(Pkcs11UriError::Value { name: "library-version".to_owned() }) }
}

fn absolute(name: &str, text: String) -> Result<PathBuf, Pkcs11UriError> {
    if Path::new(&text).is_absolute() {
        Ok(text.into())
    } else {
        Err(Pkcs11UriError::Relative { name: name.to_owned() })
    }
}

fn file_name(text: String) -> Result<String, Pkcs11UriError> {
    let plain = !text.is_empty() && !text.contains('/') && !text.starts_with('.');
    if plain { Ok(text) } else { Err(Pkcs11UriError::Value { name: "module-name".to_owned() }) }
}

/// An invalid PKCS#11 URI. No variant contains a value, which could be a PIN.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Pkcs11UriError {
    /// Another scheme than `pkcs11`.
    #[error("invalid PKCS#11 URI: must begin with `pkcs11:`")]
    Scheme,
    /// Not a list of names and values.
    #[error("invalid PKCS#11 URI: must be `pkcs11:NAME=VALUE;…?NAME=VALUE&…`")]
    Syntax,
    /// A character that must be escaped, or an invalid escape.
    #[error("invalid PKCS#11 URI: the value of `{name}` contains a character that must be percent-encoded")]
    Escape {
        /// Name of the attribute.
        name: String,
    },
    /// An unknown attribute in the path.
    #[error("invalid PKCS#11 URI: unknown attribute `{name}`")]
    Unknown {
        /// Name of the attribute.
        name: String,
    },
    /// A repeated attribute.
    #[error("invalid PKCS#11 URI: duplicate attribute `{name}`")]
    Twice {
        /// Name of the attribute.
        name: String,
    },
    /// A value that is not allowed.
    #[error("invalid PKCS#11 URI: invalid value of `{name}`")]
    Value {
        /// Name of the attribute.
        name: String,
    },
    /// A relative path.
    #[error("invalid PKCS#11 URI: `{name}` must be an absolute path")]
    Relative {
        /// Name of the attribute.
        name: String,
    },
    /// Another `type` than `private` and `cert`.
    #[error("invalid PKCS#11 URI: unsupported type `{kind}`, must be `private`")]
    Type {
        /// The value of `type`.
        kind: String,
    },
    /// The attribute `pin-value`.
    #[error("invalid PKCS#11 URI: `pin-value` is not allowed, because other users and programs can read it")]
    Pin,
    /// A `pin-source` that runs a program.
    #[error("invalid PKCS#11 URI: unsupported `pin-source`, must be a file and not a program")]
    PinProgram,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrong(text: &str) -> String {
        Pkcs11Uri::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn parses_usual_uris() {
        let uri =
            Pkcs11Uri::parse("pkcs11:token=The%20Software%20Token;object=kube-ec;type=private;id=%01%fF").unwrap();
        assert_eq!(uri.token.as_deref(), Some("The Software Token"));
        assert_eq!(uri.object.as_deref(), Some("kube-ec"));
        assert_eq!(uri.id.as_deref(), Some(&[1, 0xff][..]));
        for source in ["/run/pin", "file:/run/pin", "file:///run/pin", "file://localhost/run/pin", "%2Frun%2Fpin"] {
            let uri = Pkcs11Uri::parse(&format!("pkcs11:?pin-source={source}")).unwrap();
            assert_eq!(uri.pin_source, Some(PinSource::File("/run/pin".into())), "{source}");
        }
        assert!(Pkcs11Uri::parse("pkcs11:?pin-source=file://elsewhere/run/pin").is_err());
        let uri =
            Pkcs11Uri::parse("PKCS11:slot-id=3?module-path=/usr/lib/x.so&pin-source=file:/run/pin&x-other=1&X_Other=2")
                .unwrap();
        assert_eq!(uri.slot_id, Some(3));
        assert_eq!(uri.module_path.as_deref(), Some(Path::new("/usr/lib/x.so")));
        assert_eq!(uri.pin_source, Some(PinSource::File("/run/pin".into())));
        assert_eq!(Pkcs11Uri::parse("pkcs11:").unwrap(), Pkcs11Uri::default());
        assert_eq!(Pkcs11Uri::parse("pkcs11:model=a=b;").unwrap().model.as_deref(), Some("a=b"));
    }

    #[test]
    fn rejects_pin_value_without_quoting_it() {
        for text in
            ["pkcs11:token=a?pin-value=hunter2", "pkcs11:?pin-source=/p&pin-value=hunter2", "pkcs11:?Pin-Value=hunter2"]
        {
            assert_eq!(Pkcs11Uri::parse(text), Err(Pkcs11UriError::Pin), "{text}");
        }
        for text in
            ["pkcs11:pin-value=hunter2", "pkcs11:token=hunter2;token=hunter2", "hunter2", "pkcs11:token=hunter2 "]
        {
            assert!(!wrong(text).contains("hunter2"), "{text}");
            assert!(!format!("{:?}", Pkcs11Uri::parse(text)).contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn reports_syntax_errors() {
        assert_eq!(wrong("pkcs12:token=a"), "invalid PKCS#11 URI: must begin with `pkcs11:`");
        assert_eq!(wrong("pkcs11:token"), Pkcs11UriError::Syntax.to_string());
        assert_eq!(wrong("pkcs11:to%6ben=a"), Pkcs11UriError::Syntax.to_string());
        assert!(wrong("pkcs11:Token=a").contains("unknown attribute `Token`"));
        assert!(wrong("pkcs11:token=a b").contains("must be percent-encoded"));
        assert!(wrong("pkcs11:token=%4").contains("must be percent-encoded"));
        assert!(wrong("pkcs11:token=%+4").contains("must be percent-encoded"));
        assert!(wrong("pkcs11:x-vendor=a").contains("unknown attribute `x-vendor`"));
        assert!(wrong("pkcs11:object=a;object=a").contains("duplicate attribute `object`"));
        assert!(wrong("pkcs11:token=%00").contains("invalid value of"));
        assert!(wrong("pkcs11:token=%ff").contains("invalid value of"));
        assert!(wrong("pkcs11:slot-id=+1").contains("invalid value of"));
        assert!(wrong("pkcs11:library-version=2.x").contains("invalid value of"));
        assert!(wrong("pkcs11:type=public").contains("`private`"));
        assert!(wrong("pkcs11:?module-path=x.so").contains("absolute path"));
        assert!(wrong("pkcs11:?module-name=../x").contains("invalid value of"));
        assert!(wrong("pkcs11:?pin-source=%7Ccat").contains("not a program"));
    }

    proptest! {
        #[test]
        fn parse_never_panics(text in "(pkcs11:)?[a-z%0-9=;&?/é -]{0,60}") {
            let _ = Pkcs11Uri::parse(&text);
        }

        #[test]
        fn display_round_trips(
            token in proptest::option::of("[^\0]{0,12}"),
            object in proptest::option::of("[^\0]{0,12}"),
            id in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..8)),
            slot_id in proptest::option::of(any::<u64>()),
        ) {
            let uri = Pkcs11Uri { token, object, id, slot_id, ..Pkcs11Uri::default() };
            prop_assert_eq!(Pkcs11Uri::parse(&uri.to_string()), Ok(uri));
        }
    }
}

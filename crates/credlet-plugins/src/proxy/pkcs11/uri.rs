//! RFC 7512: `pkcs11:token=lab;object=kube?pin-source=/run/pin`.

use std::fmt;
use std::path::{Path, PathBuf};

use super::PinSource;

/// Which object of which token is meant. What is `None` may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Uri {
    /// The token's label.
    pub token: Option<String>,
    /// Who made it.
    pub manufacturer: Option<String>,
    /// Which one of his it is.
    pub serial: Option<String>,
    /// What he calls it.
    pub model: Option<String>,
    /// The slot's number.
    pub slot_id: Option<u64>,
    /// What is written about the slot.
    pub slot_description: Option<String>,
    /// Who made the slot.
    pub slot_manufacturer: Option<String>,
    /// Who made the library.
    pub library_manufacturer: Option<String>,
    /// What is written about the library.
    pub library_description: Option<String>,
    /// `2` or `2.6`.
    pub library_version: Option<String>,
    /// The key's label.
    pub object: Option<String>,
    /// The key's number: any bytes.
    pub id: Option<Vec<u8>>,
    /// Where the PIN is.
    pub pin_source: Option<PinSource>,
    /// The library: its file.
    pub module_path: Option<PathBuf>,
    /// The library: its name, without `lib` and without an ending.
    pub module_name: Option<String>,
}

impl Uri {
    /// Reads it.
    ///
    /// An unknown word before the `?` narrows down what is meant, so it is refused: without it another key might be
    /// taken. An unknown word after the `?` is ignored, as the RFC has it.
    ///
    /// # Errors
    /// When it is none, when it holds a PIN, or when it can only mean something else than a key.
    pub fn parse(text: &str) -> Result<Self, UriError> {
        let rest = text.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("pkcs11:")).map(|_| &text[7..]);
        let rest = rest.ok_or(UriError::Scheme)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut uri = Self::default();
        let mut kind = None;
        for attribute in path.split(';').filter(|attribute| !attribute.is_empty()) {
            let (name, value) = pair(attribute, PATH)?;
            match name {
                "token" => once(&mut uri.token, name, words(name, value)?)?,
                "manufacturer" => once(&mut uri.manufacturer, name, words(name, value)?)?,
                "serial" => once(&mut uri.serial, name, words(name, value)?)?,
                "model" => once(&mut uri.model, name, words(name, value)?)?,
                "slot-description" => once(&mut uri.slot_description, name, words(name, value)?)?,
                "slot-manufacturer" => once(&mut uri.slot_manufacturer, name, words(name, value)?)?,
                "library-manufacturer" => once(&mut uri.library_manufacturer, name, words(name, value)?)?,
                "library-description" => once(&mut uri.library_description, name, words(name, value)?)?,
                "object" => once(&mut uri.object, name, words(name, value)?)?,
                "id" => once(&mut uri.id, name, value)?,
                "slot-id" => once(&mut uri.slot_id, name, number(name, &words(name, value)?)?)?,
                "library-version" => once(&mut uri.library_version, name, version(words(name, value)?)?)?,
                "type" => once(&mut kind, name, words(name, value)?)?,
                name => return Err(UriError::Unknown { name: name.to_owned() }),
            }
        }
        if let Some(kind) = kind.filter(|kind| kind != "private" && kind != "cert") {
            return Err(UriError::Type { kind });
        }
        for attribute in query.split('&').filter(|attribute| !attribute.is_empty()) {
            let (name, value) = pair(attribute, QUERY)?;
            match name {
                name if name.eq_ignore_ascii_case("pin-value") => return Err(UriError::Pin),
                "pin-source" => once(&mut uri.pin_source, name, PinSource::parse(&words(name, value)?)?)?,
                "module-path" => once(&mut uri.module_path, name, absolute(name, words(name, value)?)?)?,
                "module-name" => once(&mut uri.module_name, name, file_name(words(name, value)?)?)?,
                _ => {}
            }
        }
        Ok(uri)
    }
}

/// Without where the PIN is, which is nobody's business who reads of a key.
impl fmt::Display for Uri {
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
            for byte in value {
                // The RFC wants all of an id escaped, which is easier on the eye besides.
                match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' if name != "id" => {
                        write!(f, "{}", char::from(*byte))?;
                    }
                    byte => write!(f, "%{byte:02X}")?,
                }
            }
        }
        Ok(())
    }
}

/// What may stand unescaped, besides letters and digits, before the `?` …
const PATH: &[u8] = b"-._~:[]@!$'()*+,=&";
/// … and behind it.
const QUERY: &[u8] = b"-._~:[]@!$'()*+,=/?|";

/// A name, and the value's bytes.
fn pair<'a>(attribute: &'a str, allowed: &[u8]) -> Result<(&'a str, Vec<u8>), UriError> {
    let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
    // Names of vendors may have capital letters; those of the RFC have none, so `Token` is another attribute than `token`.
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || !attribute.contains('=') || !name.bytes().all(known) {
        return Err(UriError::Form);
    }
    let wrong = || UriError::Escape { name: name.to_owned() };
    let mut bytes = value.bytes();
    let mut decoded = Vec::with_capacity(value.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16)).ok_or_else(wrong);
                u8::try_from(digit()? * 16 + digit()?).map_err(|_| wrong())?
            }
            byte if byte.is_ascii_alphanumeric() || allowed.contains(&byte) => byte,
            _ => return Err(wrong()),
        });
    }
    Ok((name, decoded))
}

fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), UriError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(UriError::Twice { name: name.to_owned() }),
    }
}

fn words(name: &str, value: Vec<u8>) -> Result<String, UriError> {
    let text = String::from_utf8(value).map_err(|_| UriError::Value { name: name.to_owned() })?;
    if text.contains('\0') { Err(UriError::Value { name: name.to_owned() }) } else { Ok(text) }
}

fn number(name: &str, text: &str) -> Result<u64, UriError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| UriError::Value { name: name.to_owned() })
}

fn version(text: String) -> Result<String, UriError> {
    let part = |part: &str| !part.is_empty() && part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    let (major, minor) = text.split_once('.').unwrap_or((&text, "0"));
    let right = part(major) && part(minor);
    if right { Ok(text) } else { Err(UriError::Value { name: "library-version".to_owned() }) }
}

fn absolute(name: &str, text: String) -> Result<PathBuf, UriError> {
    if Path::new(&text).is_absolute() { Ok(text.into()) } else { Err(UriError::Relative { name: name.to_owned() }) }
}

fn file_name(text: String) -> Result<String, UriError> {
    let plain = !text.is_empty() && !text.contains('/') && !text.starts_with('.');
    if plain { Ok(text) } else { Err(UriError::Value { name: "module-name".to_owned() }) }
}

/// Why a text is no address of a key. No variant holds a value: it could be a PIN.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// It begins otherwise.
    #[error("a PKCS#11 URI begins with `pkcs11:`")]
    Scheme,
    /// It is no list of names and values.
    #[error("a PKCS#11 URI is `pkcs11:NAME=VALUE;…?NAME=VALUE&…`")]
    Form,
    /// A character that must be escaped, or an escape that is none.
    #[error("in the PKCS#11 URI the value of `{name}` has a character that must be written as %XX")]
    Escape {
        /// Whose value.
        name: String,
    },
    /// A word that narrows down what is meant in a way that we do not know.
    #[error("the PKCS#11 URI's attribute `{name}` is unknown, and without it another key could be meant")]
    Unknown {
        /// Which.
        name: String,
    },
    /// A word twice.
    #[error("the PKCS#11 URI has `{name}` twice")]
    Twice {
        /// Which.
        name: String,
    },
    /// A value that cannot be.
    #[error("the PKCS#11 URI's value of `{name}` cannot be")]
    Value {
        /// Whose.
        name: String,
    },
    /// A file without a full path.
    #[error("the PKCS#11 URI's `{name}` must be a full path")]
    Relative {
        /// Whose.
        name: String,
    },
    /// It means something that does not sign.
    #[error("the PKCS#11 URI is of type `{kind}`; a key that signs is of type `private`")]
    Type {
        /// What it means.
        kind: String,
    },
    /// A PIN in it.
    #[error(
        "the PKCS#11 URI holds a PIN (`pin-value`), where everybody who may list processes or read the file sees it"
    )]
    Pin,
    /// A program that tells the PIN.
    #[error("the PKCS#11 URI's `pin-source` is a program, which is not run; name a file")]
    PinProgram,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrong(text: &str) -> String {
        Uri::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn the_usual_forms_are_read() {
        let uri = Uri::parse("pkcs11:token=The%20Software%20Token;object=kube-ec;type=private;id=%01%fF").unwrap();
        assert_eq!(uri.token.as_deref(), Some("The Software Token"));
        assert_eq!(uri.object.as_deref(), Some("kube-ec"));
        assert_eq!(uri.id.as_deref(), Some(&[1, 0xff][..]));
        for source in ["/run/pin", "file:/run/pin", "file:///run/pin", "file://localhost/run/pin", "%2Frun%2Fpin"] {
            let uri = Uri::parse(&format!("pkcs11:?pin-source={source}")).unwrap();
            assert_eq!(uri.pin_source, Some(PinSource::File("/run/pin".into())), "{source}");
        }
        assert!(Uri::parse("pkcs11:?pin-source=file://elsewhere/run/pin").is_err());
        let uri = Uri::parse("PKCS11:slot-id=3?module-path=/usr/lib/x.so&pin-source=file:/run/pin&x-other=1&X_Other=2")
            .unwrap();
        assert_eq!(uri.slot_id, Some(3));
        assert_eq!(uri.module_path.as_deref(), Some(Path::new("/usr/lib/x.so")));
        assert_eq!(uri.pin_source, Some(PinSource::File("/run/pin".into())));
        assert_eq!(Uri::parse("pkcs11:").unwrap(), Uri::default());
        assert_eq!(Uri::parse("pkcs11:model=a=b;").unwrap().model.as_deref(), Some("a=b"));
    }

    #[test]
    fn a_pin_in_it_is_refused_and_not_repeated() {
        for text in
            ["pkcs11:token=a?pin-value=hunter2", "pkcs11:?pin-source=/p&pin-value=hunter2", "pkcs11:?Pin-Value=hunter2"]
        {
            assert_eq!(Uri::parse(text), Err(UriError::Pin), "{text}");
        }
        for text in
            ["pkcs11:pin-value=hunter2", "pkcs11:token=hunter2;token=hunter2", "hunter2", "pkcs11:token=hunter2 "]
        {
            assert!(!wrong(text).contains("hunter2"), "{text}");
            assert!(!format!("{:?}", Uri::parse(text)).contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(wrong("pkcs12:token=a"), "a PKCS#11 URI begins with `pkcs11:`");
        assert_eq!(wrong("pkcs11:token"), UriError::Form.to_string());
        assert_eq!(wrong("pkcs11:to%6ben=a"), UriError::Form.to_string());
        assert!(wrong("pkcs11:Token=a").contains("`Token` is unknown"));
        assert!(wrong("pkcs11:token=a b").contains("must be written as %XX"));
        assert!(wrong("pkcs11:token=%4").contains("must be written as %XX"));
        assert!(wrong("pkcs11:token=%+4").contains("must be written as %XX"));
        assert!(wrong("pkcs11:x-vendor=a").contains("`x-vendor` is unknown"));
        assert!(wrong("pkcs11:object=a;object=a").contains("`object` twice"));
        assert!(wrong("pkcs11:token=%00").contains("cannot be"));
        assert!(wrong("pkcs11:token=%ff").contains("cannot be"));
        assert!(wrong("pkcs11:slot-id=+1").contains("cannot be"));
        assert!(wrong("pkcs11:library-version=2.x").contains("cannot be"));
        assert!(wrong("pkcs11:type=public").contains("`private`"));
        assert!(wrong("pkcs11:?module-path=x.so").contains("full path"));
        assert!(wrong("pkcs11:?module-name=../x").contains("cannot be"));
        assert!(wrong("pkcs11:?pin-source=%7Ccat").contains("a program"));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "(pkcs11:)?[a-z%0-9=;&?/é -]{0,60}") {
            let _ = Uri::parse(&text);
        }

        #[test]
        fn what_is_shown_is_read_again(
            token in proptest::option::of("[^\0]{0,12}"),
            object in proptest::option::of("[^\0]{0,12}"),
            id in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..8)),
            slot_id in proptest::option::of(any::<u64>()),
        ) {
            let uri = Uri { token, object, id, slot_id, ..Uri::default() };
            prop_assert_eq!(Uri::parse(&uri.to_string()), Ok(uri));
        }
    }
}

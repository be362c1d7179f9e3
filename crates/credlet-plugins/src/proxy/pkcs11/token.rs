//! A token, opened: logged in, with the key and its certificate found.

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error as Cryptoki, RvError};
use cryptoki::mechanism::MechanismType;
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::{Slot, TokenInfo};
use cryptoki::types::AuthPin;
use rustls::SignatureScheme;
use rustls_pki_types::CertificateDer;

use super::mechanism::{self, Kind};
use super::{Options, Pkcs11Error, Uri, chain};

/// How often the list of tokens is looked at: a library that is just being initialized by several processes at once has
/// been seen not to know its tokens for a moment.
const LOOKS: usize = 3;
const BETWEEN_LOOKS: std::time::Duration = std::time::Duration::from_millis(100);

pub(super) struct Token {
    // Before the library, which must outlive it.
    session: Session,
    slot: Slot,
    key: ObjectHandle,
    mechanisms: Vec<MechanismType>,
    library: Library,
}

/// A library that is initialized, for as long as this lives: the next `C_Initialize` begins anew.
struct Library(Pkcs11);

impl Drop for Library {
    fn drop(&mut self) {
        // Whatever it answers, we are done with it.
        let _ = self.0.clone().finalize();
    }
}

/// What was found, by which it is known again.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) token: String,
    pub(super) serial: String,
    pub(super) kind: Kind,
    pub(super) mechanisms: Vec<MechanismType>,
    pub(super) chain: Vec<CertificateDer<'static>>,
}

impl Token {
    /// From loading the library to the key. The library is initialized anew, for some know no card that came later.
    pub(super) fn open(options: &Options) -> Result<(Self, Found), Pkcs11Error> {
        let uri = &options.uri;
        let initialized = load(options)?;
        let library = &initialized.0;
        let (slot, info) = find_token(library, uri)?;
        let label = info.label().trim_end().to_owned();
        let serial = info.serial_number().trim_end().to_owned();
        let same = |is: &dyn Fn(&Found) -> bool| match &options.known {
            Some(known) if !is(known) => Err(Pkcs11Error::Other { token: known.token.clone() }),
            _ => Ok(()),
        };
        same(&|known| known.serial == serial)?;
        let session = library.open_ro_session(slot).map_err(|e| Pkcs11Error::failed("opening a session", &e))?;
        log_in(&session, &info, &label, options)?;
        let key = find_key(&session, uri, &label)?;
        let kind = kind(&session, key)?;
        let mechanisms =
            library.get_mechanism_list(slot).map_err(|e| Pkcs11Error::failed("listing what the token can do", &e))?;
        let chain = match &options.chain {
            Some(pem) => chain::from_pem(pem)?,
            None => chain::from_token(&session, key)?,
        };
        chain::check(&session, key, kind, &chain)?;
        same(&|known| known.chain == chain)?;
        let found = Found { token: label, serial, kind, mechanisms: mechanisms.clone(), chain };
        Ok((Self { session, slot, key, mechanisms, library: initialized }, found))
    }

    /// Whether it is still there and knows us. What else may be wrong with it shows when it is needed.
    pub(super) fn is_there(&self) -> bool {
        use RvError as Rv;
        let empty = self.library.0.get_slot_info(self.slot).is_ok_and(|slot| !slot.token_present());
        let gone = matches!(
            self.session.get_session_info(),
            Err(Cryptoki::Pkcs11(Rv::DeviceRemoved | Rv::TokenNotPresent | Rv::SessionHandleInvalid, _))
        );
        !gone && !empty
    }

    pub(super) fn sign(&self, scheme: SignatureScheme, message: &[u8]) -> Result<Vec<u8>, Pkcs11Error> {
        let signed = mechanism::sign(&self.session, self.key, scheme, &self.mechanisms, message);
        let nonsense = || Pkcs11Error::Key { reason: "has made something that is no signature".to_owned() };
        signed.map_err(|error| Pkcs11Error::failed("signing", &error))?.ok_or_else(nonsense)
    }
}

fn load(options: &Options) -> Result<Library, Pkcs11Error> {
    let failed = |error: &Cryptoki| match error {
        Cryptoki::LibraryLoading(_) | Cryptoki::MissingSymbol(_) => Pkcs11Error::Module {
            path: options.module.clone(),
            reason: "cannot be loaded: it is none, or for another machine, or lacks a library itself".to_owned(),
        },
        error => Pkcs11Error::failed("starting the PKCS#11 library", error),
    };
    let library = Pkcs11::new(&options.module).map_err(|error| failed(&error))?;
    match library.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
        // Somebody else in this process uses the same one.
        Ok(()) | Err(Cryptoki::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
        Err(error) => return Err(failed(&error)),
    }
    let library = Library(library);
    let uri = &options.uri;
    let info = library.0.get_library_info().map_err(|error| failed(&error))?;
    let version = info.library_version();
    let version = format!("{}.{}", version.major(), version.minor());
    let meant = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is.trim_end());
    let versions = uri
        .library_version
        .as_ref()
        .is_none_or(|wanted| version == *wanted || version.strip_suffix(".0") == Some(wanted));
    if meant(&uri.library_manufacturer, info.manufacturer_id())
        && meant(&uri.library_description, info.library_description())
        && versions
    {
        return Ok(library);
    }
    let reason = format!("is not the one that is meant by {uri}");
    Err(Pkcs11Error::Module { path: options.module.clone(), reason })
}

fn find_token(library: &Pkcs11, uri: &Uri) -> Result<(Slot, TokenInfo), Pkcs11Error> {
    let mut others = Vec::new();
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(BETWEEN_LOOKS);
        }
        others.clear();
        let slots = library.get_slots_with_token().map_err(|e| Pkcs11Error::failed("listing the tokens", &e))?;
        let mut found = Vec::new();
        for slot in slots {
            // One that was pulled out just now is none.
            let Ok(info) = library.get_token_info(slot) else { continue };
            if is_meant(library, slot, &info, uri) {
                found.push((slot, info));
            } else if info.token_initialized() {
                others.push(format!("`{}`", info.label().trim_end()));
            }
        }
        match found.len() {
            0 => {}
            1 => return found.pop().ok_or(Pkcs11Error::NoModule),
            count => return Err(Pkcs11Error::Several { what: "tokens", count, uri: uri.to_string() }),
        }
    }
    Err(Pkcs11Error::NoToken { uri: uri.to_string(), others })
}

fn is_meant(library: &Pkcs11, slot: Slot, token: &TokenInfo, uri: &Uri) -> bool {
    let meant = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is.trim_end());
    let slot_meant = || {
        let asked = uri.slot_description.is_some() || uri.slot_manufacturer.is_some();
        !asked
            || library.get_slot_info(slot).is_ok_and(|slot| {
                meant(&uri.slot_description, slot.slot_description())
                    && meant(&uri.slot_manufacturer, slot.manufacturer_id())
            })
    };
    token.token_initialized()
        && meant(&uri.token, token.label())
        && meant(&uri.manufacturer, token.manufacturer_id())
        && meant(&uri.serial, token.serial_number())
        && meant(&uri.model, token.model())
        && uri.slot_id.is_none_or(|id| id == slot.id())
        && slot_meant()
}

/// Once. A token that is near to locking itself is not even asked.
fn log_in(session: &Session, info: &TokenInfo, label: &str, options: &Options) -> Result<(), Pkcs11Error> {
    let refused = |reason| Pkcs11Error::Pin { token: label.to_owned(), reason };
    if !info.login_required() {
        return Ok(());
    }
    if let Some(reason) = why_not(info.user_pin_locked(), info.user_pin_final_try()) {
        return Err(refused(reason));
    }
    let pin = options.pin.as_ref().map(|pin| AuthPin::new(pin.expose().into()));
    if pin.is_none() && !info.protected_authentication_path() {
        return Err(Pkcs11Error::NoPin { token: label.to_owned() });
    }
    let login = session.login(UserType::User, pin.as_ref());
    login.or_else(|error| match error {
        Cryptoki::Pkcs11(RvError::UserAlreadyLoggedIn, _) => Ok(()),
        Cryptoki::Pkcs11(RvError::PinIncorrect | RvError::PinInvalid | RvError::PinLenRange, _) => {
            Err(refused("does not take the PIN"))
        }
        Cryptoki::Pkcs11(RvError::PinLocked, _) => {
            Err(refused("has locked its PIN: its administrator can set another"))
        }
        Cryptoki::Pkcs11(RvError::PinExpired, _) => Err(refused("wants another PIN: this one is too old")),
        error => Err(Pkcs11Error::failed("logging in", &error)),
    })
}

/// Why no PIN may be tried, however good it is.
fn why_not(locked: bool, final_try: bool) -> Option<&'static str> {
    match (locked, final_try) {
        (true, _) => Some("has locked its PIN: its administrator can set another"),
        (_, true) => Some("would lock itself if one more PIN were wrong: log in once with its own tool first"),
        _ => None,
    }
}

fn find_key(session: &Session, uri: &Uri, label: &str) -> Result<ObjectHandle, Pkcs11Error> {
    let mut wanted = vec![Attribute::Class(ObjectClass::PRIVATE_KEY)];
    wanted.extend(uri.object.as_ref().map(|object| Attribute::Label(object.clone().into_bytes())));
    wanted.extend(uri.id.as_ref().map(|id| Attribute::Id(id.clone())));
    let found = session.find_objects(&wanted).map_err(|e| Pkcs11Error::failed("looking for the key", &e))?;
    match found[..] {
        [] => Err(Pkcs11Error::no_key(label, uri)),
        [key] => Ok(key),
        _ => Err(Pkcs11Error::Several { what: "keys", count: found.len(), uri: uri.to_string() }),
    }
}

fn kind(session: &Session, key: ObjectHandle) -> Result<Kind, Pkcs11Error> {
    let about = attributes(session, key, &[AttributeType::KeyType, AttributeType::AlwaysAuthenticate])?;
    if about.contains(&Attribute::AlwaysAuthenticate(true)) {
        let reason = "wants its PIN for each signature, which is no use to a proxy: use one that wants it once";
        return Err(Pkcs11Error::Key { reason: reason.to_owned() });
    }
    let curve = || {
        let params = attributes(session, key, &[AttributeType::EcParams])?;
        let kind = params.iter().find_map(|attribute| match attribute {
            Attribute::EcParams(params) => Kind::of_curve(params),
            _ => None,
        });
        kind.ok_or_else(|| Pkcs11Error::Key { reason: "is on a curve that TLS servers do not take".to_owned() })
    };
    let kind = about.iter().find_map(|attribute| match attribute {
        Attribute::KeyType(kind) => Some(*kind),
        _ => None,
    });
    match kind {
        Some(KeyType::RSA) => Ok(Kind::Rsa),
        Some(KeyType::EC | KeyType::EC_EDWARDS) => curve(),
        _ => Err(Pkcs11Error::Key { reason: "is of a kind that TLS does not know".to_owned() }),
    }
}

pub(super) fn attributes(
    session: &Session,
    object: ObjectHandle,
    which: &[AttributeType],
) -> Result<Vec<Attribute>, Pkcs11Error> {
    session.get_attributes(object, which).map_err(|error| Pkcs11Error::failed("reading about the key", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_locked_or_would_lock_itself_is_not_asked() {
        assert!(why_not(true, false).is_some_and(|reason| reason.contains("has locked its PIN")));
        assert!(why_not(false, true).is_some_and(|reason| reason.contains("would lock itself")));
        assert_eq!(why_not(false, false), None);
    }
}

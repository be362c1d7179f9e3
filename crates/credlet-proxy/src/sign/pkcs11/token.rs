//! Opens a token: loads the library, logs in, and finds the key and its certificate.

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error as Cryptoki, RvError};
use cryptoki::mechanism::MechanismType;
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::{Slot, TokenInfo};
use cryptoki::types::AuthPin;
use rustls::SignatureScheme;
use rustls_pki_types::CertificateDer;

use super::lock::{self, LockRegistration, TokenLock};
use super::mechanism::{self, KeyKind};
use super::{Pkcs11Error, Pkcs11Options, Pkcs11Uri, chain};

/// Number of attempts to find the token. A library that several processes initialize at once may briefly list no tokens.
const TOKEN_LIST_ATTEMPTS: usize = 3;
const TOKEN_LIST_INTERVAL: std::time::Duration = std::time::Duration::from_millis(100);

pub(super) struct OpenToken {
    // Declared before the library, which must outlive it.
    session: Session,
    slot: Slot,
    key: ObjectHandle,
    mechanisms: Vec<MechanismType>,
    library: InitializedLibrary,
    /// Released after the library has been finalized: fields are dropped in this order.
    _lock: Option<TokenLock>,
}

/// An initialized library. Dropping it calls `C_Finalize`, so that the library can be initialized again.
struct InitializedLibrary(Pkcs11);

impl Drop for InitializedLibrary {
    fn drop(&mut self) {
        // The library is not used again, so an error does not matter.
        let _ = self.0.clone().finalize();
    }
}

/// The key of an opened token. A reopened token must have the same serial number and certificate.
#[derive(Clone, Debug)]
pub(super) struct KeyDetails {
    pub(super) token: String,
    pub(super) serial: String,
    pub(super) kind: KeyKind,
    pub(super) mechanisms: Vec<MechanismType>,
    pub(super) chain: Vec<CertificateDer<'static>>,
}

impl OpenToken {
    /// Loads the library, logs in and finds the key. The library is initialized each time, because some do not see cards that are inserted
    /// later. Waits for another proxy that is closing its session on this token.
    ///
    /// # Errors
    /// [`Pkcs11Error::Busy`] if another proxy keeps the token open and the token cannot be shared.
    pub(super) fn open(options: &Pkcs11Options) -> Result<(Self, KeyDetails), Pkcs11Error> {
        let dir = options.lock_dir.as_deref();
        let mut few_tries_left = None;
        let attempt = |turn: &mut LockRegistration<'_>| Self::try_open(options, turn, &mut few_tries_left);
        let ((token, found), held) = lock::open_in_turn(dir, lock::CONTENTION_LIMIT, attempt)?;
        Ok((Self { _lock: held, ..token }, found))
    }

    /// `few_tries_left` is the flag `CKF_USER_PIN_COUNT_LOW` of the token before the first attempt.
    fn try_open(
        options: &Pkcs11Options,
        turn: &mut LockRegistration<'_>,
        few_tries_left: &mut Option<bool>,
    ) -> Result<(Self, KeyDetails), Pkcs11Error> {
        let uri = &options.uri;
        let initialized = load(options)?;
        let library = &initialized.0;
        let (slot, info) = find_token(library, uri)?;
        let label = info.label().trim_end().to_owned();
        let serial = info.serial_number().trim_end().to_owned();
        let same = |is: &dyn Fn(&KeyDetails) -> bool| match &options.known {
            Some(known) if !is(known) => Err(Pkcs11Error::Other { token: known.token.clone() }),
            _ => Ok(()),
        };
        same(&|known| known.serial == serial)?;
        turn.register(&options.module, &label, &serial);
        if !*few_tries_left.get_or_insert(info.user_pin_count_low()) && info.user_pin_count_low() {
            // The previous attempt failed because of a wrong PIN, which this library reports as another error.
            return Err(Pkcs11Error::Pin { token: label, reason: "has counted a wrong PIN" });
        }
        let session = library.open_ro_session(slot).map_err(|e| Pkcs11Error::failed("opening a session", &e))?;
        log_in(&session, &info, &label, options)?;
        let key = find_key(&session, uri, &label)?;
        let kind = kind(&session, key)?;
        let mechanisms = library
            .get_mechanism_list(slot)
            .map_err(|e| Pkcs11Error::failed("listing the mechanisms of the token", &e))?;
        let chain = match &options.chain {
            Some(pem) => chain::from_pem(pem)?,
            None => chain::from_token(&session, key)?,
        };
        chain::check(&session, key, kind, &chain)?;
        same(&|known| known.chain == chain)?;
        let found = KeyDetails { token: label, serial, kind, mechanisms: mechanisms.clone(), chain };
        Ok((Self { session, slot, key, mechanisms, library: initialized, _lock: None }, found))
    }

    /// Returns whether the token is in its slot and the session is valid. Other failures show when the token is used.
    pub(super) fn is_present(&self) -> bool {
        use RvError as Rv;
        let empty = self.library.0.get_slot_info(self.slot).is_ok_and(|slot| !slot.token_present());
        let session_lost = matches!(
            self.session.get_session_info(),
            Err(Cryptoki::Pkcs11(Rv::DeviceRemoved | Rv::TokenNotPresent | Rv::SessionHandleInvalid, _))
        );
        !session_lost && !empty
    }

    pub(super) fn sign(&self, scheme: SignatureScheme, message: &[u8]) -> Result<Vec<u8>, Pkcs11Error> {
        let signed = mechanism::sign(&self.session, self.key, scheme, &self.mechanisms, message);
        let invalid = || Pkcs11Error::Key { reason: "returned an invalid signature".to_owned() };
        signed.map_err(|error| Pkcs11Error::failed("signing", &error))?.ok_or_else(invalid)
    }
}

fn load(options: &Pkcs11Options) -> Result<InitializedLibrary, Pkcs11Error> {
    let failed = |error: &Cryptoki| match error {
        Cryptoki::LibraryLoading(_) | Cryptoki::MissingSymbol(_) => Pkcs11Error::Module {
            path: options.module.clone(),
            reason: "not a shared library for this machine, or a library that it depends on is missing".to_owned(),
        },
        error => Pkcs11Error::failed("starting the PKCS#11 library", error),
    };
    let library = Pkcs11::new(&options.module).map_err(|error| failed(&error))?;
    match library.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
        // Another signer in this process uses the same library.
        Ok(()) | Err(Cryptoki::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
        Err(error) => return Err(failed(&error)),
    }
    let library = InitializedLibrary(library);
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
    let reason = format!("does not match {uri}");
    Err(Pkcs11Error::Module { path: options.module.clone(), reason })
}

fn find_token(library: &Pkcs11, uri: &Pkcs11Uri) -> Result<(Slot, TokenInfo), Pkcs11Error> {
    let mut others = Vec::new();
    for look in 0..TOKEN_LIST_ATTEMPTS {
        if look > 0 {
            std::thread::sleep(TOKEN_LIST_INTERVAL);
        }
        others.clear();
        let slots = library.get_slots_with_token().map_err(|e| Pkcs11Error::failed("listing the tokens", &e))?;
        let mut found = Vec::new();
        for slot in slots {
            // The token was removed meanwhile.
            let Ok(info) = library.get_token_info(slot) else { continue };
            if matches_uri(library, slot, &info, uri) {
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

fn matches_uri(library: &Pkcs11, slot: Slot, token: &TokenInfo, uri: &Pkcs11Uri) -> bool {
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

/// Logs in once. Does not try a PIN on a token that would lock itself after another wrong one.
fn log_in(session: &Session, info: &TokenInfo, label: &str, options: &Pkcs11Options) -> Result<(), Pkcs11Error> {
    let refused = |reason| Pkcs11Error::Pin { token: label.to_owned(), reason };
    if !info.login_required() {
        return Ok(());
    }
    if let Some(reason) = pin_blocked_reason(info.user_pin_locked(), info.user_pin_final_try()) {
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
            Err(refused("does not accept the PIN"))
        }
        Cryptoki::Pkcs11(RvError::PinLocked, _) => Err(refused(PIN_LOCKED)),
        Cryptoki::Pkcs11(RvError::PinExpired, _) => Err(refused("requires a new PIN: this one has expired")),
        error => Err(Pkcs11Error::failed("logging in", &error)),
    })
}

const PIN_LOCKED: &str = "has locked its PIN: the administrator of the token must reset it";

/// Returns the reason for not trying a PIN.
fn pin_blocked_reason(locked: bool, final_try: bool) -> Option<&'static str> {
    match (locked, final_try) {
        (true, _) => Some(PIN_LOCKED),
        (_, true) => Some("would lock itself after one more wrong PIN: log in with the tool of the token first"),
        _ => None,
    }
}

fn find_key(session: &Session, uri: &Pkcs11Uri, label: &str) -> Result<ObjectHandle, Pkcs11Error> {
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

fn kind(session: &Session, key: ObjectHandle) -> Result<KeyKind, Pkcs11Error> {
    let about = attributes(session, key, &[AttributeType::KeyType, AttributeType::AlwaysAuthenticate])?;
    if about.contains(&Attribute::AlwaysAuthenticate(true)) {
        let reason = "requires its PIN for each signature, which a proxy does not support: use a key without CKA_ALWAYS_AUTHENTICATE";
        return Err(Pkcs11Error::Key { reason: reason.to_owned() });
    }
    let curve = || {
        let params = attributes(session, key, &[AttributeType::EcParams])?;
        let kind = params.iter().find_map(|attribute| match attribute {
            Attribute::EcParams(params) => KeyKind::from_ec_params(params),
            _ => None,
        });
        kind.ok_or_else(|| Pkcs11Error::Key { reason: "uses an unsupported curve".to_owned() })
    };
    let kind = about.iter().find_map(|attribute| match attribute {
        Attribute::KeyType(kind) => Some(*kind),
        _ => None,
    });
    match kind {
        Some(KeyType::RSA) => Ok(KeyKind::Rsa),
        Some(KeyType::EC | KeyType::EC_EDWARDS) => curve(),
        _ => Err(Pkcs11Error::Key { reason: "has an unsupported type".to_owned() }),
    }
}

pub(super) fn attributes(
    session: &Session,
    object: ObjectHandle,
    which: &[AttributeType],
) -> Result<Vec<Attribute>, Pkcs11Error> {
    session.get_attributes(object, which).map_err(|error| Pkcs11Error::failed("reading attributes of the key", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_login_of_locked_token() {
        assert!(pin_blocked_reason(true, false).is_some_and(|reason| reason.contains("has locked its PIN")));
        assert!(pin_blocked_reason(false, true).is_some_and(|reason| reason.contains("would lock itself")));
        assert_eq!(pin_blocked_reason(false, false), None);
    }
}

//! A cached response as a file: some lines of text about it, a blank line, and the plugin's output.

use std::fmt::Write as _;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::CacheOptions;
use super::key::CacheKey;
use super::lifetime::EntryLifetime;

const MAGIC: &str = "credlet-cache 2";

/// A cached response.
pub struct CacheEntry {
    pub(super) lifetime: EntryLifetime,
    /// When the credential expires, as far as the plugin or the credential says.
    pub(super) expires_at: Option<Timestamp>,
    /// Digest of the credential, to detect whether the plugin has returned another one.
    pub(super) digest: String,
    /// Digest of the credential that the server rejected before this one. If both are equal, another run does not help.
    pub(super) rejected: Option<String>,
    /// Generation of the secret that the key was computed with.
    pub(super) generation: String,
    /// The plugin's name, for `ls` and `rm`.
    pub(super) command: String,
    /// The cluster's address, for `ls` and `rm`.
    pub(super) server: String,
    /// The plugin's output.
    pub(super) body: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for CacheEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheEntry")
            .field("lifetime", &self.lifetime)
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

impl CacheEntry {
    /// Returns a digest that identifies the credential, whatever else differs in the plugin's output.
    pub(super) fn digest_of(credential: &[&str]) -> String {
        let parts = credential.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part).chain_update([0]));
        credlet_api::hex(parts.finalize())
    }

    /// Encodes the entry for the file `key`.
    pub(super) fn encode(&self, key: &CacheKey) -> Zeroizing<Vec<u8>> {
        let mut head = String::new();
        let at = |time: Timestamp| time.as_millisecond();
        // Writing into a String cannot fail.
        let _ = write!(
            head,
            "key {key}\ncreated {}\nahead {}\nuntil {}\nend {}\ndigest {}\nrefused {}\ngeneration {}\ncommand {}\nserver {}\n\n",
            at(self.lifetime.created),
            at(self.lifetime.refresh_at),
            at(self.lifetime.serve_until),
            self.expires_at.map(|end| at(end).to_string()).unwrap_or_default(),
            self.digest,
            self.rejected.as_deref().unwrap_or_default(),
            self.generation,
            one_line(&self.command),
            one_line(&self.server),
        );
        let sum = Sha256::new().chain_update(&head).chain_update(&self.body).finalize();
        let first = format!("{MAGIC} {}\n", credlet_api::hex(sum));
        let mut bytes = Zeroizing::new(Vec::with_capacity(first.len() + head.len() + self.body.len()));
        bytes.extend_from_slice(first.as_bytes());
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Parses the content of the file `key`. Returns `None` if it is damaged, of another format or of another key.
    pub fn decode(bytes: &[u8], key: &str) -> Option<Self> {
        let (first, rest) = split_line(bytes)?;
        let sum = first.strip_prefix(MAGIC)?.strip_prefix(' ')?;
        if sum != credlet_api::hex(Sha256::digest(rest)) {
            return None;
        }
        Self::decode_unchecked(rest, key)
    }

    /// Parses the lines after the checksum: for [`decode`](Self::decode) and fuzzing.
    pub fn decode_unchecked(bytes: &[u8], key: &str) -> Option<Self> {
        let mut rest = bytes;
        let mut field = |name: &str| {
            let (line, after) = split_line(rest)?;
            rest = after;
            line.strip_prefix(name)?.strip_prefix(' ')
        };
        let time = |text: &str| Timestamp::from_millisecond(text.parse().ok()?).ok();
        let optional = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        field("key").filter(|found| *found == key)?;
        let lifetime = EntryLifetime {
            created: time(field("created")?)?,
            refresh_at: time(field("ahead")?)?,
            serve_until: time(field("until")?)?,
        };
        let expires_at = time(field("end")?);
        let digest = field("digest")?.to_owned();
        let rejected = optional(field("refused")?);
        let generation = field("generation")?.to_owned();
        let (command, server) = (field("command")?.to_owned(), field("server")?.to_owned());
        let body = Zeroizing::new(rest.strip_prefix(b"\n")?.to_vec());
        Some(Self { lifetime, expires_at, digest, rejected, generation, command, server, body })
    }

    /// Whether the entry may be served at `now`. An entry from the future was stored before the clock was set back, and
    /// is not served.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        now < self.lifetime.serve_until && self.lifetime.created.duration_since(now).as_secs() < 5
    }

    /// Whether the entry may be served under these limits, which may be stricter than those it was stored under.
    pub(super) fn is_fresh_for(&self, options: &CacheOptions, now: Timestamp) -> bool {
        let limit = if self.expires_at.is_some() { options.max_age } else { options.max_age.min(options.default_ttl) };
        let until = self.lifetime.created.checked_add(limit).unwrap_or(Timestamp::MAX);
        self.is_fresh(now) && now < until
    }
}

fn split_line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

fn one_line(text: &str) -> String {
    credlet_api::escape_line(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> CacheEntry {
        let at = |second| Timestamp::from_second(second).unwrap();
        CacheEntry {
            lifetime: EntryLifetime { created: at(100), refresh_at: at(180), serve_until: at(200) },
            expires_at: Some(at(210)),
            digest: CacheEntry::digest_of(&["hunter2"]),
            rejected: None,
            generation: "0".repeat(16),
            command: "aws\nfoo".into(),
            server: String::new(),
            body: Zeroizing::new(b"hunter2\n\nx".to_vec()),
        }
    }

    #[test]
    fn entry_is_encoded_and_decoded() {
        let key = CacheKey::from_name(&"a".repeat(64));
        let bytes = entry().encode(&key);
        let read = CacheEntry::decode(&bytes, key.as_str()).unwrap();
        assert_eq!(
            (read.lifetime, read.expires_at, &*read.digest),
            (entry().lifetime, entry().expires_at, &*entry().digest)
        );
        assert_eq!((&*read.command, &**read.body), ("aws foo", &b"hunter2\n\nx"[..]));
        assert!(!format!("{read:?}").contains("hunter2"));
    }

    #[test]
    fn damaged_or_misplaced_entry_is_rejected() {
        let key = CacheKey::from_name(&"a".repeat(64));
        let bytes = entry().encode(&key);
        assert!(CacheEntry::decode(&bytes, &"0".repeat(64)).is_none());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(CacheEntry::decode(&damaged, key.as_str()).is_none(), "byte {at}");
            assert!(CacheEntry::decode(&bytes[..at], key.as_str()).is_none(), "length {at}");
        }
    }

    #[test]
    fn entry_is_fresh_between_creation_and_expiry() {
        let fresh = |second| entry().is_fresh(Timestamp::from_second(second).unwrap());
        assert!(fresh(100) && fresh(199) && !fresh(200) && !fresh(500));
        // The clock was set back.
        assert!(!fresh(50));
    }

    #[test]
    fn stricter_limits_of_the_caller_apply() {
        let fresh = |options: &CacheOptions, entry: &CacheEntry, second| {
            entry.is_fresh_for(options, Timestamp::from_second(second).unwrap())
        };
        let usual = CacheOptions::new("p", [""; 0]);
        let short = CacheOptions { max_age: std::time::Duration::from_secs(15), ..usual.clone() };
        assert!(fresh(&usual, &entry(), 199) && fresh(&short, &entry(), 114) && !fresh(&short, &entry(), 115));
        let endless = CacheEntry { expires_at: None, ..entry() };
        assert!(fresh(&usual, &endless, 109) && !fresh(&usual, &endless, 110));
    }
}

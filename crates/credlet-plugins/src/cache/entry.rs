//! One answer, as it lies on the disk: some lines of text about it, a blank line, and the answer.

use std::fmt::Write as _;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::key::{Key, hex};
use super::life::Life;
use crate::store::Sealer;

const MAGIC: &str = "credlet-cache 1";

/// One answer, and what is known of it.
pub struct Entry {
    pub(super) life: Life,
    /// When the credential ends by its own word.
    pub(super) end: Option<Timestamp>,
    /// A digest of the credential, to tell whether the plugin has given another one.
    pub(super) digest: String,
    /// The digest of the one that was refused before it. The same: the plugin insists.
    pub(super) refused: Option<String>,
    /// The plugin's name, for people.
    pub(super) command: String,
    /// The cluster's address, for people.
    pub(super) server: String,
    pub(super) sealed: bool,
    /// The answer, sealed or not.
    pub(super) body: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("life", &self.life).field("command", &self.command).finish_non_exhaustive()
    }
}

impl Entry {
    /// What tells two credentials apart, whatever else changes in an answer.
    pub(super) fn digest_of(credential: &[&str]) -> String {
        let parts = credential.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part).chain_update([0]));
        hex(&parts.finalize())
    }

    /// As bytes for the file of this key.
    pub(super) fn encode(&self, key: &Key) -> Zeroizing<Vec<u8>> {
        let mut head = String::new();
        let at = |time: Timestamp| time.as_millisecond();
        // Writing into a String cannot fail.
        let _ = write!(
            head,
            "key {key}\ncreated {}\nahead {}\nuntil {}\nend {}\ndigest {}\nrefused {}\nsealed {}\ncommand {}\nserver {}\n\n",
            at(self.life.created),
            at(self.life.ahead),
            at(self.life.until),
            self.end.map(|end| at(end).to_string()).unwrap_or_default(),
            self.digest,
            self.refused.as_deref().unwrap_or_default(),
            u8::from(self.sealed),
            one_line(&self.command),
            one_line(&self.server),
        );
        let sum = Sha256::new().chain_update(&head).chain_update(&self.body).finalize();
        let first = format!("{MAGIC} {}\n", hex(&sum));
        let mut bytes = Zeroizing::new(Vec::with_capacity(first.len() + head.len() + self.body.len()));
        bytes.extend_from_slice(first.as_bytes());
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// `None`: it is no entry, is damaged, or is that of another key.
    pub(super) fn decode(bytes: &[u8], key: &str) -> Option<Self> {
        let (first, rest) = split_line(bytes)?;
        let sum = first.strip_prefix(MAGIC)?.strip_prefix(' ')?;
        if sum != hex(&Sha256::digest(rest)) {
            return None;
        }
        let mut rest = rest;
        let mut field = |name: &str| {
            let (line, after) = split_line(rest)?;
            rest = after;
            line.strip_prefix(name)?.strip_prefix(' ')
        };
        let time = |text: &str| Timestamp::from_millisecond(text.parse().ok()?).ok();
        let optional = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        field("key").filter(|found| *found == key)?;
        let life =
            Life { created: time(field("created")?)?, ahead: time(field("ahead")?)?, until: time(field("until")?)? };
        let end = time(field("end")?);
        let digest = field("digest")?.to_owned();
        let refused = optional(field("refused")?);
        let sealed = field("sealed")? == "1";
        let (command, server) = (field("command")?.to_owned(), field("server")?.to_owned());
        let body = Zeroizing::new(rest.strip_prefix(b"\n")?.to_vec());
        Some(Self { life, end, digest, refused, command, server, sealed, body })
    }

    /// Whether it may be given away at `now`. One from the future was made by a clock that has been set back since.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        now < self.life.until && self.life.created.duration_since(now).as_secs() < 5
    }

    /// The answer. `None`: it was sealed, and cannot be opened.
    pub(super) fn answer(self, key: &Key, sealer: impl FnOnce() -> Option<Sealer>) -> Option<Zeroizing<Vec<u8>>> {
        if !self.sealed {
            return Some(self.body);
        }
        sealer()?.open(key.as_str().as_bytes(), &self.body).ok()
    }
}

fn split_line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

fn one_line(text: &str) -> String {
    credlet_api::visible(text).replace(|c: char| c.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        let at = |second| Timestamp::from_second(second).unwrap();
        Entry {
            life: Life { created: at(100), ahead: at(180), until: at(200) },
            end: Some(at(210)),
            digest: Entry::digest_of(&["hunter2"]),
            refused: None,
            command: "aws\nfoo".into(),
            server: String::new(),
            sealed: false,
            body: Zeroizing::new(b"hunter2\n\nx".to_vec()),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let key = Key::of(&[]);
        let bytes = entry().encode(&key);
        let read = Entry::decode(&bytes, key.as_str()).unwrap();
        assert_eq!((read.life, read.end, &*read.digest), (entry().life, entry().end, &*entry().digest));
        assert_eq!((&*read.command, &**read.body), ("aws foo", &b"hunter2\n\nx"[..]));
        assert!(!format!("{read:?}").contains("hunter2"));
    }

    #[test]
    fn any_damage_and_any_other_key_makes_it_no_entry() {
        let key = Key::of(&[]);
        let bytes = entry().encode(&key);
        assert!(Entry::decode(&bytes, &"0".repeat(64)).is_none());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Entry::decode(&damaged, key.as_str()).is_none(), "byte {at}");
            assert!(Entry::decode(&bytes[..at], key.as_str()).is_none(), "length {at}");
        }
    }

    #[test]
    fn it_is_fresh_from_its_making_to_its_end() {
        let fresh = |second| entry().is_fresh(Timestamp::from_second(second).unwrap());
        assert!(fresh(100) && fresh(199) && !fresh(200) && !fresh(500));
        // The clock was set back.
        assert!(!fresh(50));
    }
}

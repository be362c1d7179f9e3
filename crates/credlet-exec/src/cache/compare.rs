//! Compares a call with stored entries of the same plugin, by the fingerprints of the key's parts (`cache explain`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use zeroize::Zeroizing;

use super::{CacheInvocation, CacheKey};
use crate::store::{Store, StoreError, is_entry_key};

const MAGIC: &str = "credlet-inputs 1";

/// An entry of the same plugin and how its key differs from that of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryComparison {
    /// Key of the entry.
    pub key: CacheKey,
    /// Key parts in which the call and the entry differ.
    pub differences: Vec<KeyDifference>,
}

/// A key part in which a call and an entry differ. Holds its name and no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyDifference {
    /// The values differ.
    Changed(String),
    /// Only the call has this part.
    Added(String),
    /// Only the entry has this part.
    Removed(String),
}

pub(super) fn file_name(key: &CacheKey) -> String {
    format!("{key}.inputs")
}

impl CacheInvocation {
    /// The fingerprints of the key's parts by name. `None`: the call is not cached.
    fn fingerprints(&self) -> Option<BTreeMap<String, String>> {
        let (_, secret) = self.state.as_ref().ok()?;
        let line = |what: &str| credlet_api::escape_line(what);
        Some(self.key_parts().iter().map(|part| (line(&part.name), part.fingerprint(secret))).collect())
    }

    /// Encodes the key's parts for the `.inputs` file.
    pub(super) fn encode_key_parts(&self) -> Option<Zeroizing<Vec<u8>>> {
        let (_, secret) = self.state.as_ref().ok()?;
        let mut text = format!("{MAGIC} {}\n", secret.generation());
        for (what, fingerprint) in self.fingerprints()? {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{fingerprint} {what}");
        }
        Some(Zeroizing::new(text.into_bytes()))
    }
}

/// Parses an `.inputs` file. Returns `None` if it is damaged or of another generation of the secret.
fn decode(bytes: &[u8], generation: &str) -> Option<BTreeMap<String, String>> {
    let (first, rest) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
    if first.strip_prefix(MAGIC)?.strip_prefix(' ')? != generation {
        return None;
    }
    rest.lines().map(|line| line.split_once(' ').map(|(print, what)| (what.to_owned(), print.to_owned()))).collect()
}

/// Compares a call with the other entries of the same program in `store`, those with the fewest differences first.
///
/// # Errors
/// If the directory cannot be read.
pub fn compare(call: &CacheInvocation, store: &Store) -> Result<Vec<EntryComparison>, StoreError> {
    let (Ok((_, secret)), Some(protection), Some(own)) = (&call.state, call.existing_protection(), call.fingerprints())
    else {
        return Ok(Vec::new());
    };
    let generation = secret.generation();
    let mut comparisons = Vec::new();
    for key in store.names()?.into_iter().filter(|name| is_entry_key(name) && name != call.key().as_str()) {
        let key = CacheKey::from_name(&key);
        let name = file_name(&key);
        let Ok(Some(bytes)) = store.read(&name) else { continue };
        let other = protection.decode(&name, bytes).and_then(|plain| decode(&plain, &generation));
        let Some(other) = other.filter(|other| other.get("program") == own.get("program")) else { continue };
        comparisons.push(EntryComparison { key, differences: differences(&own, &other) });
    }
    comparisons.sort_by_key(|comparison| comparison.differences.len());
    Ok(comparisons)
}

fn differences(own: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> Vec<KeyDifference> {
    let changed = own.iter().filter_map(|(what, print)| match other.get(what) {
        Some(same) if same == print => None,
        Some(_) => Some(KeyDifference::Changed(what.clone())),
        None => Some(KeyDifference::Added(what.clone())),
    });
    let removed = other.keys().filter(|what| !own.contains_key(*what)).cloned().map(KeyDifference::Removed);
    changed.chain(removed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(what, print)| ((*what).to_owned(), (*print).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let own = map(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let other = map(&[("a", "1"), ("b", "9"), ("d", "4")]);
        let expected =
            [KeyDifference::Changed("b".into()), KeyDifference::Added("c".into()), KeyDifference::Removed("d".into())];
        assert_eq!(differences(&own, &other), expected);
        assert_eq!(differences(&own, &own), []);
    }

    #[test]
    fn damaged_and_outdated_files_are_ignored() {
        let text = b"credlet-inputs 1 00ff\n0011 variable A\n";
        assert_eq!(decode(text, "00ff").unwrap().get("variable A").unwrap(), "0011");
        assert_eq!(decode(text, "00fe"), None);
        assert_eq!(decode(b"credlet-inputs 1 00ff\n0011\n", "00ff"), None);
        assert_eq!(decode(b"", "00ff"), None);
    }
}

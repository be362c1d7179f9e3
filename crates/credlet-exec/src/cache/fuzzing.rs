//! Entry points of `fuzz/fuzz_targets` into parsers that are private otherwise. Not part of the public interface.

use jiff::Timestamp;

use super::CacheEntry;
use super::key::CacheKey;

/// Parses a cache entry from `rest`, the file without its first line, and again from its own encoding. Returns whether both
/// gave the same entry. `None`: not an entry.
pub fn entry(rest: &[u8], key: &str) -> Option<bool> {
    let entry = CacheEntry::decode_unchecked(rest, key)?;
    let _ = entry.is_fresh(Timestamp::UNIX_EPOCH);
    let again = CacheEntry::decode(&entry.encode(&CacheKey::from_name(key)), key)?;
    Some(
        (again.lifetime, again.expires_at) == (entry.lifetime, entry.expires_at)
            && (&again.digest, &again.rejected, &again.generation)
                == (&entry.digest, &entry.rejected, &entry.generation)
            && again.body == entry.body,
    )
}

//! Reader of one row of an SQLite table, for gcloud's token databases.
//!
//! SQLite would add a quarter of a million lines of C for two look-ups. Its file format is documented and stable
//! (<https://sqlite.org/fileformat2.html>), and a small table uses little of it: b-tree pages, cells, overflow pages, records.
//! Nothing is written and no lock is taken: the file is read twice, and used only if no process was writing. Anything unexpected
//! counts as a missing row.

use std::path::{Path, PathBuf};

use credlet_platform::fs::read_bounded;
use zeroize::Zeroizing;

/// Maximum file size in bytes. gcloud's files have about 10 kB.
const MAX_FILE_SIZE: u64 = 16 << 20;
/// Maximum row size in bytes. A service account key has 2 kB.
const MAX_ROW_SIZE: usize = 1 << 20;

/// The value of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnValue<'a> {
    Text(&'a [u8]),
    Int(u64),
    Other,
}

/// Returns the columns of the row with `key` in its first column; columns that are not text are `None`. Returns `None` if file,
/// table or row is missing, or a process is writing to the file.
pub(super) fn find_row(path: &Path, table: &str, key: &str) -> Option<Vec<Option<Zeroizing<String>>>> {
    find_in_bytes(&read_stable(path)?, table, key)
}

pub(super) fn find_in_bytes(bytes: &[u8], table: &str, key: &str) -> Option<Vec<Option<Zeroizing<String>>>> {
    let file = SqliteFile::new(bytes)?;
    let root = file.root(table)?;
    let mut found = None;
    file.for_each_row(root, &mut |columns| {
        if columns.first() == Some(&ColumnValue::Text(key.as_bytes())) {
            found = Some(columns.iter().map(text).collect());
        }
    })?;
    found
}

fn text(value: &ColumnValue<'_>) -> Option<Zeroizing<String>> {
    match value {
        ColumnValue::Text(bytes) => Some(Zeroizing::new(std::str::from_utf8(bytes).ok()?.to_owned())),
        _ => None,
    }
}

/// Returns the bytes of the file, unless a process is writing to it.
fn read_stable(path: &Path) -> Option<Zeroizing<Vec<u8>>> {
    let beside = |suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
    // A writer has a rollback journal or a write-ahead log.
    let busy = || ["-journal", "-wal"].iter().any(|suffix| beside(suffix).metadata().is_ok_and(|file| file.len() > 0));
    let read = || read_bounded(path, MAX_FILE_SIZE).ok();
    // Each transaction changes a counter in the header, so equal bytes mean that there was none.
    let (first, second) = (read()?, (!busy()).then(read)??);
    (first == second && !busy()).then_some(first)
}

struct SqliteFile<'a> {
    bytes: &'a [u8],
    page: usize,
    /// Page size without the reserved bytes at the end of each page.
    usable: usize,
}

impl<'a> SqliteFile<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        bytes.starts_with(b"SQLite format 3\0").then_some(())?;
        let page = match number(bytes.get(16..18)?) {
            1 => 65_536,
            size if size >= 512 && size.is_power_of_two() => size,
            _ => return None,
        };
        let usable = page - usize::from(*bytes.get(20)?);
        // Text encoding: 1 is UTF-8.
        let utf8 = number(bytes.get(56..60)?) == 1;
        (utf8 && usable >= 480).then_some(Self { bytes, page, usable })
    }

    /// The root page of a table.
    fn root(&self, table: &str) -> Option<usize> {
        let mut root = None;
        self.for_each_row(1, &mut |columns| {
            if let [ColumnValue::Text(b"table"), ColumnValue::Text(name), _, ColumnValue::Int(page), ..] = columns
                && *name == table.as_bytes()
            {
                root = usize::try_from(*page).ok();
            }
        })?;
        root
    }

    /// Calls `see` for each row of the table with this root page.
    fn for_each_row(&self, root: usize, see: &mut dyn FnMut(&[ColumnValue<'_>])) -> Option<()> {
        let mut ahead = vec![root];
        // Each page is visited at most once, so that a cycle in an invalid file terminates.
        let mut left = self.bytes.len() / self.page;
        while let Some(number_of_page) = ahead.pop() {
            left = left.checked_sub(1)?;
            let page = self.page(number_of_page)?;
            // The first page begins with the file header.
            let start = if number_of_page == 1 { 100 } else { 0 };
            let head = page.get(start..start + 12)?;
            let (kind, cells) = (head[0], number(&head[3..5]));
            let pointers = start + if kind == 5 { 12 } else { 8 };
            let cell = |index: usize| {
                let at = number(page.get(pointers + 2 * index..pointers + 2 * index + 2)?);
                page.get(at..self.usable)
            };
            match kind {
                5 => {
                    ahead.push(number(&head[8..12]));
                    for index in 0..cells {
                        ahead.push(number(cell(index)?.get(..4)?));
                    }
                }
                13 => {
                    for index in 0..cells {
                        let payload = self.payload(cell(index)?)?;
                        see(&columns(&payload)?);
                    }
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn page(&self, number: usize) -> Option<&'a [u8]> {
        let start = number.checked_sub(1)?.checked_mul(self.page)?;
        self.bytes.get(start..start.checked_add(self.page)?)
    }

    /// The payload of a cell, including its overflow pages.
    fn payload(&self, cell: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let mut rest = cell;
        let length = usize::try_from(varint(&mut rest)?).ok().filter(|length| *length <= MAX_ROW_SIZE)?;
        varint(&mut rest)?;
        let most = self.usable - 35;
        let local = if length <= most {
            length
        } else {
            let least = (self.usable - 12) * 32 / 255 - 23;
            let fitting = least + (length - least) % (self.usable - 4);
            if fitting <= most { fitting } else { least }
        };
        let mut payload = Zeroizing::new(Vec::with_capacity(length));
        payload.extend_from_slice(rest.get(..local)?);
        let mut next = if local < length { number(rest.get(local..local + 4)?) } else { 0 };
        while payload.len() < length {
            let page = self.page(next)?;
            next = number(page.get(..4)?);
            let here = (length - payload.len()).min(self.usable - 4);
            payload.extend_from_slice(page.get(4..4 + here)?);
        }
        Some(payload)
    }
}

/// Parses a record: a header with the serial types, then the values.
fn columns(record: &[u8]) -> Option<Vec<ColumnValue<'_>>> {
    let mut rest = record;
    let head = usize::try_from(varint(&mut rest)?).ok()?;
    let (mut kinds, mut body) = (record.get(record.len() - rest.len()..head)?, record.get(head..)?);
    let mut columns = Vec::new();
    while !kinds.is_empty() {
        let kind = varint(&mut kinds)?;
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind,
            5 => 6,
            6 | 7 => 8,
            10 | 11 => return None,
            kind => (kind - 12) / 2,
        };
        let (bytes, after) = body.split_at_checked(usize::try_from(length).ok()?)?;
        body = after;
        columns.push(match kind {
            1..=6 => ColumnValue::Int(bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))),
            // gcloud declares the column as a blob and stores text.
            kind if kind >= 12 => ColumnValue::Text(bytes),
            _ => ColumnValue::Other,
        });
    }
    Some(columns)
}

/// Decodes a big-endian integer.
fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

/// Decodes a varint: up to nine bytes with seven bits each, eight in the ninth.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut sum = 0;
    for index in 0..9 {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        if index == 8 {
            return Some(sum << 8 | u64::from(*byte));
        }
        sum = sum << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = include_bytes!("../../tests/plugins/gcloud/access_tokens.db");

    fn token(bytes: &[u8], account: &str) -> Option<String> {
        find_in_bytes(bytes, "access_tokens", account)?.get(1)?.as_ref().map(|token| token.to_string())
    }

    #[test]
    fn finds_rows_on_interior_and_overflow_pages() {
        assert_eq!(token(FILE, "ada@example.test"), Some(format!("ya29.adas-stored-token-{}", "a".repeat(1500))));
        assert_eq!(token(FILE, "user00@example.test"), Some(format!("ya29.other-00-{}", "x".repeat(40))));
        assert_eq!(token(FILE, "rapt@example.test"), None);
        assert_eq!(token(FILE, "nobody@example.test"), None);
        assert_eq!(find_in_bytes(FILE, "tokens", "ada@example.test"), None);
    }

    #[test]
    fn terminates_on_corrupt_files() {
        for length in (0..FILE.len()).step_by(37) {
            assert_eq!(token(&FILE[..length], "nobody"), None);
        }
        for at in 0..FILE.len() {
            let mut bytes = FILE.to_vec();
            bytes[at] ^= if at % 2 == 0 { 0xff } else { 0x01 };
            assert_eq!(token(&bytes, "nobody"), None);
        }
    }
}

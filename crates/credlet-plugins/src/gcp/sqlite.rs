//! Reading a table of an SQLite file, which is where gcloud keeps its tokens.
//!
//! SQLite itself would be a quarter of a million lines of C for two look-ups of one row; its file format is documented
//! and frozen (<https://sqlite.org/fileformat2.html>), and a table with a few rows uses little of it: b-tree pages, cells,
//! overflow pages, records. Nothing is written and no lock is taken: the file is read twice, and used if nobody was
//! writing meanwhile. Whatever is unusual about it is no table.

use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// gcloud's files have some ten thousand bytes.
const LARGEST: u64 = 16 << 20;
/// Of one row: a key file has 2 kB.
const LONGEST: usize = 1 << 20;

/// One column of one row, as far as it is of use here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value<'a> {
    Text(&'a [u8]),
    Int(u64),
    Other,
}

/// The columns of the row whose first column is `key`, as texts. `None`: there is no such file, table or row, or it
/// cannot be read just now.
pub(super) fn row(path: &Path, table: &str, key: &str) -> Option<Vec<Option<Zeroizing<String>>>> {
    find(&still(path)?, table, key)
}

pub(super) fn find(bytes: &[u8], table: &str, key: &str) -> Option<Vec<Option<Zeroizing<String>>>> {
    let file = File::new(bytes)?;
    let root = file.root(table)?;
    let mut found = None;
    file.each(root, &mut |columns| {
        if columns.first() == Some(&Value::Text(key.as_bytes())) {
            found = Some(columns.iter().map(text).collect());
        }
    })?;
    found
}

fn text(value: &Value<'_>) -> Option<Zeroizing<String>> {
    match value {
        Value::Text(bytes) => Some(Zeroizing::new(std::str::from_utf8(bytes).ok()?.to_owned())),
        _ => None,
    }
}

/// The file's bytes, if nobody is in the middle of changing them.
fn still(path: &Path) -> Option<Zeroizing<Vec<u8>>> {
    let beside = |suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
    // A writer's, with what the file held before, or will hold.
    let busy = || ["-journal", "-wal"].iter().any(|suffix| beside(suffix).metadata().is_ok_and(|file| file.len() > 0));
    let about = path.metadata().ok().filter(|about| about.is_file() && about.len() <= LARGEST)?;
    let read = || {
        let room = usize::try_from(about.len()).ok()?;
        let mut bytes = Zeroizing::new(Vec::with_capacity(room + 1));
        std::io::Read::read_to_end(&mut std::fs::File::open(path).ok()?, &mut bytes).ok()?;
        Some(bytes)
    };
    // Each change also changes a counter in the file.
    let (first, second) = (read()?, (!busy()).then(read)??);
    (first == second && !busy()).then_some(first)
}

struct File<'a> {
    bytes: &'a [u8],
    page: usize,
    /// Of each page, without what is reserved at its end.
    usable: usize,
}

impl<'a> File<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        bytes.starts_with(b"SQLite format 3\0").then_some(())?;
        let page = match number(bytes.get(16..18)?) {
            1 => 65_536,
            size if size >= 512 && size.is_power_of_two() => size,
            _ => return None,
        };
        let usable = page - usize::from(*bytes.get(20)?);
        // Text in UTF-8.
        let utf8 = number(bytes.get(56..60)?) == 1;
        (utf8 && usable >= 480).then_some(Self { bytes, page, usable })
    }

    /// The first page of a table.
    fn root(&self, table: &str) -> Option<usize> {
        let mut root = None;
        self.each(1, &mut |columns| {
            if let [Value::Text(b"table"), Value::Text(name), _, Value::Int(page), ..] = columns
                && *name == table.as_bytes()
            {
                root = usize::try_from(*page).ok();
            }
        })?;
        root
    }

    /// Shows each row of the table that begins on this page.
    fn each(&self, root: usize, see: &mut dyn FnMut(&[Value<'_>])) -> Option<()> {
        let mut ahead = vec![root];
        // No page belongs to a table twice: whoever says so would keep us for ever.
        let mut left = self.bytes.len() / self.page;
        while let Some(number_of_page) = ahead.pop() {
            left = left.checked_sub(1)?;
            let page = self.page(number_of_page)?;
            // The first one begins with the file's own header.
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

    /// A row's bytes, of which long ones go on on other pages.
    fn payload(&self, cell: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let mut rest = cell;
        let length = usize::try_from(varint(&mut rest)?).ok().filter(|length| *length <= LONGEST)?;
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

/// A record: the kinds of its columns, then the columns.
fn columns(record: &[u8]) -> Option<Vec<Value<'_>>> {
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
            1..=6 => Value::Int(bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))),
            // gcloud declares its JSON a blob and stores a text.
            kind if kind >= 12 => Value::Text(bytes),
            _ => Value::Other,
        });
    }
    Some(columns)
}

/// Big-endian.
fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

/// Up to nine bytes, seven bits in each but the ninth.
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

    const FILE: &[u8] = include_bytes!("../../tests/clouds/gcloud/access_tokens.db");

    fn token(bytes: &[u8], account: &str) -> Option<String> {
        find(bytes, "access_tokens", account)?.get(1)?.as_ref().map(|token| token.to_string())
    }

    #[test]
    fn rows_are_found_on_inner_and_overflow_pages() {
        assert_eq!(token(FILE, "ada@example.test"), Some(format!("ya29.adas-stored-token-{}", "a".repeat(1500))));
        assert_eq!(token(FILE, "user00@example.test"), Some(format!("ya29.other-00-{}", "x".repeat(40))));
        assert_eq!(token(FILE, "rapt@example.test"), None);
        assert_eq!(token(FILE, "nobody@example.test"), None);
        assert_eq!(find(FILE, "tokens", "ada@example.test"), None);
    }

    #[test]
    fn a_file_that_was_cut_or_changed_comes_to_an_end() {
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

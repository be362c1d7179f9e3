//! Matching of one host label, like Go's `filepath.Match`.

/// Malformed pattern (Go's `filepath.ErrBadPattern`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadPattern;

/// Whether `pattern` matches `text`. `*` matches any sequence of characters. Brackets occur in an IPv6 address without a port
/// and are a character class.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> Result<bool, BadPattern> {
    // Backtracking state: the pattern after the last `*`, and the text from which that `*` matches one more character.
    let mut back: Option<(&[u8], &[u8])> = None;
    let (mut pattern_rest, mut text_rest) = (pattern, text);
    loop {
        if let [b'*', after @ ..] = pattern_rest {
            back = Some((after, text_rest));
            pattern_rest = after;
            continue;
        }
        if pattern_rest.is_empty() && text_rest.is_empty() {
            return Ok(true);
        }
        if let Some((pattern_after, text_after)) = step(pattern_rest, text_rest)? {
            (pattern_rest, text_rest) = (pattern_after, text_after);
            continue;
        }
        match back {
            Some((after_star, [_, text_after @ ..])) => {
                back = Some((after_star, text_after));
                (pattern_rest, text_rest) = (after_star, text_after);
            }
            _ => {
                check_syntax(pattern_rest)?;
                return Ok(false);
            }
        }
    }
}

type Remainders<'a> = (&'a [u8], &'a [u8]);

/// Matches one pattern element against one character.
fn step<'a>(pattern: &'a [u8], text: &'a [u8]) -> Result<Option<Remainders<'a>>, BadPattern> {
    match (pattern, text) {
        ([b'[', class @ ..], _) => {
            let (matched, pattern_after) = class_matches(class, text.first().copied())?;
            Ok(matched.then(|| (pattern_after, text.get(1..).unwrap_or_default())))
        }
        ([expected, pattern_after @ ..], [found, text_after @ ..]) if expected == found => {
            Ok(Some((pattern_after, text_after)))
        }
        _ => Ok(None),
    }
}

/// Matches a character class (`abc]`, `a-f]`, `^a]`). Only IPv6 addresses get here, so bytes are characters.
fn class_matches(class: &[u8], found: Option<u8>) -> Result<(bool, &[u8]), BadPattern> {
    let (negated, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut matched = false;
    let mut first = true;
    loop {
        match rest {
            [b']', after @ ..] if !first => {
                return Ok((found.is_some() && matched != negated, after));
            }
            [low, b'-', high, after @ ..] if member(*low)? <= member(*high)? => {
                matched |= found.is_some_and(|found| (*low..=*high).contains(&found));
                rest = after;
            }
            [low, after @ ..] => {
                matched |= found == Some(member(*low)?);
                rest = after;
            }
            [] => return Err(BadPattern),
        }
        first = false;
    }
}

fn member(byte: u8) -> Result<u8, BadPattern> {
    if matches!(byte, b'-' | b']') { Err(BadPattern) } else { Ok(byte) }
}

/// Reports a malformed rest of the pattern after a mismatch, as Go does.
fn check_syntax(pattern: &[u8]) -> Result<(), BadPattern> {
    let mut rest = pattern;
    while let [first, after @ ..] = rest {
        rest = if *first == b'[' { class_matches(after, None)?.1 } else { after };
    }
    Ok(())
}

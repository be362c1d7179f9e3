//! Text that foreign programs wrote, made fit to be shown.

use credlet_api::{Secret, scrub, visible};

/// A program's words without secrets and without escape sequences. The secrets we know of are those that it was given,
/// and what stands in its `stdout` if it then failed.
pub fn harmless<'a>(text: &[u8], stdout: &[u8], known: impl IntoIterator<Item = &'a Secret>) -> String {
    let printed = String::from_utf8_lossy(stdout);
    let printed = printed.split(|c: char| c.is_whitespace() || "\"',".contains(c));
    let printed: Vec<_> = printed.filter(|word| word.len() >= 16).map(Secret::from).collect();
    let known: Vec<&Secret> = known.into_iter().collect();
    visible(&scrub(&String::from_utf8_lossy(text), known.into_iter().chain(&printed)))
}

/// What programs say last is usually what matters, apart from advice.
pub fn last_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let is_advice = |line: &&str| line.is_empty() || line.starts_with("hint:");
    let line = text.lines().rev().map(str::trim).find(|line| !is_advice(line)).unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    match line.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugins_last_word_that_is_no_advice_is_its_message() {
        assert_eq!(last_line("trace\nerror: please log in\nhint: run `acme login`\n\n"), "please log in");
        assert_eq!(last_line(" \n"), "");
        assert_eq!(last_line(&"é".repeat(1000)), format!("{}…", "é".repeat(300)));
    }
}

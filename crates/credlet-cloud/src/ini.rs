//! INI parser for `~/.aws/config`, gcloud configurations and `~/.oci/config`, with the extensions of awscli and the SDKs.
//!
//! Where awscli (Python's parser) rejects a file that the SDKs accept, this parser follows the SDKs: sections and settings may
//! be repeated, an invalid line is skipped, and ` #` or ` ;` after a value begins a comment.

use credlet_api::Secret;

/// A section and its settings. Any value may be a secret.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    /// Setting names in lower case; those of a nested block are `block.name`.
    settings: Vec<(String, Secret)>,
}

impl Section {
    /// The value of a setting unless it is empty. The last setting of a name wins.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.expose()).filter(|value| !value.is_empty())
    }
}

/// Parses a file.
pub(crate) fn parse(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    // Indentation of the last setting. A line with more continues that setting.
    let mut indent = None;
    for line in text.trim_start_matches('\u{feff}').lines() {
        let content = line.trim();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        let depth = line.len() - line.trim_start().len();
        if let Some(section) = sections.last_mut()
            && indent.is_some_and(|indent| depth > indent)
        {
            section.continue_setting(content);
        } else if let Some(title) = content.strip_prefix('[').and_then(|rest| Some(rest.rsplit_once(']')?.0)) {
            sections.push(Section { title: title.trim().to_owned(), ..Section::default() });
            indent = None;
        } else if let Some(section) = sections.last_mut()
            && let Some((name, value)) = setting(content)
        {
            section.settings.push((name, value));
            indent = Some(depth);
        }
    }
    sections
}

impl Section {
    /// Adds a continuation line: a member of the block that an empty value begins, or the next line of a value.
    fn continue_setting(&mut self, content: &str) {
        let Some((block, value)) = self.settings.iter().rev().find(|(name, _)| !name.contains('.')) else { return };
        if value.is_empty() {
            if let Some((name, value)) = setting(content) {
                let name = format!("{block}.{name}");
                self.settings.push((name, value));
            }
        } else if let Some((_, value)) = self.settings.last_mut() {
            *value = Secret::new(format!("{}\n{content}", value.expose()));
        }
    }
}

fn setting(line: &str) -> Option<(String, Secret)> {
    let (name, value) = line.split_once(['=', ':'])?;
    let name = name.trim().to_ascii_lowercase();
    // A shell command may contain ` ;` or ` #`.
    let may_comment = name != "credential_process";
    let comment = [" #", " ;", "\t#", "\t;"].into_iter().filter_map(|mark| value.find(mark)).min();
    let value = comment.filter(|_| may_comment).map_or(value, |at| &value[..at]);
    Some((name, Secret::new(value.trim())))
}

/// Splits a section title or a command line like a shell: whitespace separates, quotes group, a backslash escapes. `None`: a
/// quote or an escape is not terminated.
pub(crate) fn split_shell_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '\\' => match rest.next()? {
                            c @ ('"' | '\\') => word.push(c),
                            c => word.extend(['\\', c]),
                        },
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(rest.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\u{feff}lost = before any section\r
[default]\r
Region=eu-west-3\r
  # a comment
; another
output : json
empty =
s3 =
  addressing_style = path
  max = 3
[profile \"with blank\"] trailing
   aws_access_key_id = AKID
   role_arn: arn:aws:iam::1:role/x
   region = us-east-1 # mine
nonsense
[default]
region = us-west-2
credential_process = tool --a=b ; x #y
     and more
";

    #[test]
    fn parses_awscli_extensions() {
        let sections = parse(FILE);
        let titles: Vec<_> = sections.iter().map(|section| &*section.title).collect();
        assert_eq!(titles, ["default", "profile \"with blank\"", "default"]);
        let [first, blank, second] = &*sections else { unreachable!() };
        assert_eq!(first.value("region"), Some("eu-west-3"));
        assert_eq!(first.value("output"), Some("json"));
        assert_eq!(first.value("empty"), None);
        assert_eq!(first.value("s3.addressing_style"), Some("path"));
        assert_eq!(first.value("s3.max"), Some("3"));
        assert_eq!(blank.value("aws_access_key_id"), Some("AKID"));
        assert_eq!(blank.value("role_arn"), Some("arn:aws:iam::1:role/x"));
        assert_eq!(blank.value("region"), Some("us-east-1"));
        assert_eq!(second.value("credential_process"), Some("tool --a=b ; x #y\nand more"));
        assert!(!format!("{sections:?}").contains("AKID"));
    }

    #[test]
    fn splits_shell_words() {
        let split = |text: &str| split_shell_words(text);
        assert_eq!(
            split(r#"a  "b c" 'd "e' f\ g "h\"i" "" x"y"z"#).unwrap(),
            ["a", "b c", "d \"e", "f g", "h\"i", "", "xyz"]
        );
        assert_eq!(split(""), Some(vec![]));
        assert_eq!(split("\"open"), None);
        assert_eq!(split("'open"), None);
        assert_eq!(split("end\\"), None);
    }
}

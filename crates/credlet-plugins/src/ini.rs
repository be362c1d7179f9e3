//! The format of `~/.aws/config`, of gcloud's configurations and of `~/.oci/config`: INI, with the quirks that awscli and
//! the SDKs give it.
//!
//! Where awscli (Python's parser) refuses a file and the SDKs do not, we are with the SDKs: a section may stand twice,
//! a setting may stand twice, a line that is neither is skipped, and ` #` or ` ;` after a value begins a comment.

use credlet_api::Secret;

/// A section and its settings. Any of them may be a secret.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    /// Names in lower case; those of a nested block are `block.name`.
    settings: Vec<(String, Secret)>,
}

impl Section {
    /// The value of a setting, if it is not empty. The last one of a name stands.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.expose()).filter(|value| !value.is_empty())
    }
}

/// Reads a whole file.
pub(crate) fn read(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    // How far the last setting was indented: a line that is further in belongs to it.
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
            section.go_on(content);
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
    /// A line that belongs to the setting above it: a member of the block that an empty value begins, or more of a value.
    fn go_on(&mut self, content: &str) {
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
    // The one value that may well have such a mark in it: a shell's commands are separated by one.
    let may_comment = name != "credential_process";
    let comment = [" #", " ;", "\t#", "\t;"].into_iter().filter_map(|mark| value.find(mark)).min();
    let value = comment.filter(|_| may_comment).map_or(value, |at| &value[..at]);
    Some((name, Secret::new(value.trim())))
}

/// Splits the title of a section, or a command line, into words as a shell does: blanks separate, quotes hold together,
/// a backslash protects. `None`: a quote is left open.
pub(crate) fn words(text: &str) -> Option<Vec<String>> {
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
    fn files_are_read_with_all_their_quirks() {
        let sections = read(FILE);
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
    fn words_are_split_as_a_shell_splits_them() {
        let split = |text: &str| words(text);
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

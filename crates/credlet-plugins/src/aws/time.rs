use jiff::Timestamp;

/// A time as AWS's tools write it: RFC 3339, or with `UTC` at its end (old caches), or without a zone (then it is UTC).
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let text = text.strip_suffix("UTC").unwrap_or(text);
    text.parse().ok().or_else(|| format!("{text}Z").parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_form_that_tools_have_written() {
        let expected = "2026-11-15T19:31:47Z".parse().ok();
        for text in
            ["2026-11-15T19:31:47Z", "2026-11-15T19:31:47UTC", "2026-11-15T19:31:47", "2026-11-15T20:31:47+01:00"]
        {
            assert_eq!(parse(text), expected, "{text}");
        }
        assert_eq!(parse("tomorrow"), None);
        assert_eq!(parse(""), None);
    }
}

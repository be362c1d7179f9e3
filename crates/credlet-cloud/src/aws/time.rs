use jiff::Timestamp;

/// Parses a time of AWS tools: RFC 3339, with the suffix `UTC` (old caches), or without a zone, which means UTC.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let text = text.strip_suffix("UTC").unwrap_or(text);
    text.parse().ok().or_else(|| format!("{text}Z").parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_all_time_formats() {
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

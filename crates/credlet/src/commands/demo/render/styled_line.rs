/// Meaning of a span of text, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanStyle {
    Plain,
    Dim,
    Bold,
    Good,
    Bad,
    Token,
    NextToken,
    Certificate,
    NextCertificate,
    Watch,
    Latency,
}

impl SpanStyle {
    /// Alternating colours of consecutive credentials on the time line.
    pub(super) const TOKENS: [Self; 2] = [Self::Token, Self::NextToken];
    pub(super) const CERTIFICATES: [Self; 2] = [Self::Certificate, Self::NextCertificate];

    /// The SGR parameter of the style.
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Dim => "2",
            Self::Bold => "1",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Token => "36",
            Self::NextToken => "96",
            Self::Certificate => "35",
            Self::NextCertificate => "95",
            Self::Watch => "34",
            Self::Latency => "33",
        }
    }
}

/// A line of styled spans. Every character must take one column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StyledLine {
    pub(super) pieces: Vec<(SpanStyle, String)>,
}

impl StyledLine {
    /// Appends text. Text of the same style joins the last span.
    #[must_use]
    pub(super) fn add(mut self, style: SpanStyle, text: impl AsRef<str>) -> Self {
        match self.pieces.last_mut() {
            Some((last, piece)) if *last == style => piece.push_str(text.as_ref()),
            _ => self.pieces.push((style, text.as_ref().to_owned())),
        }
        self
    }

    pub(super) fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// Truncates the line to `width` columns.
    pub(super) fn truncate(&mut self, width: usize) {
        let mut left = width;
        for (_, text) in &mut self.pieces {
            let end = text.char_indices().nth(left).map_or(text.len(), |(at, _)| at);
            text.truncate(end);
            left -= text.chars().count();
        }
    }

    pub(super) fn plain(&self) -> String {
        let text: String = self.pieces.iter().map(|(_, text)| text.as_str()).collect();
        text.trim_end().to_owned()
    }

    pub(super) fn coloured(&self) -> String {
        self.pieces.iter().map(|(style, text)| format!("\u{1b}[{}m{text}\u{1b}[0m", style.code())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncates_by_characters() {
        let mut line =
            StyledLine::default().add(SpanStyle::Good, "✓✓").add(SpanStyle::Good, "✓").add(SpanStyle::Dim, "abc");
        assert_eq!((line.pieces.len(), line.width()), (2, 6));
        line.truncate(4);
        assert_eq!(line.plain(), "✓✓✓a");
        assert_eq!(line.coloured(), "\u{1b}[32m✓✓✓\u{1b}[0m\u{1b}[2ma\u{1b}[0m");
        line.truncate(2);
        assert_eq!(line.plain(), "✓✓");
    }
}

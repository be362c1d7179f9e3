use std::fmt;

/// Where in a document something is, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a document could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing but white space.
    #[error("is empty")]
    Empty,
    /// Bytes that are not UTF-8.
    #[error("is not UTF-8 text (byte {byte})")]
    NotText {
        /// How many bytes before the first bad one.
        byte: usize,
    },
    /// Neither JSON nor YAML.
    #[error("is neither JSON nor YAML ({at})")]
    Syntax {
        /// Where the parser gave up.
        at: Position,
    },
    /// A complete JSON object, and then something else.
    #[error("has something after the JSON object ({at})")]
    Trailing {
        /// Where that begins.
        at: Position,
    },
    /// A list, a string or a number where an object belongs.
    #[error("is not an object ({at})")]
    NotAnObject {
        /// Where it begins.
        at: Position,
    },
    /// A field holds a value of another type.
    #[error("has a `{field}` that is not {expected} ({at})")]
    Type {
        /// The field's path.
        field: &'static str,
        /// What belongs there.
        expected: &'static str,
        /// Where the value is.
        at: Position,
    },
    /// A key stands twice in one mapping of a document in which that is a mistake.
    #[error("has the same key twice ({at})")]
    DuplicateKey {
        /// Where the second one is.
        at: Position,
    },
    /// Larger or deeper than any honest document, such as aliases that multiply.
    #[error("is larger or deeper than any honest document")]
    TooComplex,
}

impl Fault {
    /// Where in the document, if that is known.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Syntax { at }
            | Self::Trailing { at }
            | Self::NotAnObject { at }
            | Self::Type { at, .. }
            | Self::DuplicateKey { at } => Some(*at),
            Self::Empty | Self::NotText { .. } | Self::TooComplex => None,
        }
    }
}

use std::fmt;

/// Position in a document, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line number, starting at 1.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Error of decoding a JSON or YAML document. It names fields and positions, and never quotes a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// The document consists of white space.
    #[error("the document is empty")]
    Empty,
    /// The bytes are not UTF-8.
    #[error("invalid UTF-8 (byte {byte})")]
    NotUtf8 {
        /// Number of valid bytes before the first invalid one.
        byte: usize,
    },
    /// The document is neither JSON nor YAML.
    #[error("invalid JSON or YAML ({at})")]
    Syntax {
        /// Position at which the parser stopped.
        at: Position,
    },
    /// A complete JSON object is followed by other data.
    #[error("unexpected data after the JSON object ({at})")]
    TrailingData {
        /// Position of the first character behind the object.
        at: Position,
    },
    /// The document is a list or a scalar instead of an object.
    #[error("not an object ({at})")]
    NotAnObject {
        /// Position of the value.
        at: Position,
    },
    /// The value of a field has the wrong type or form.
    #[error("invalid `{field}`: expected {expected} ({at})")]
    InvalidType {
        /// Path of the field.
        field: &'static str,
        /// Description of a valid value, such as "a string".
        expected: &'static str,
        /// Position of the value.
        at: Position,
    },
    /// A mapping has the same key twice, in a document for which that is an error.
    #[error("duplicate key ({at})")]
    DuplicateKey {
        /// Position of the second key.
        at: Position,
    },
    /// A limit on size, nesting or the expansion of YAML aliases is exceeded.
    #[error("the document exceeds the limits on size and nesting")]
    TooComplex,
}

impl DocumentError {
    /// Returns the position of the error, if the parser knows it.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Syntax { at }
            | Self::TrailingData { at }
            | Self::NotAnObject { at }
            | Self::InvalidType { at, .. }
            | Self::DuplicateKey { at } => Some(*at),
            Self::Empty | Self::NotUtf8 { .. } | Self::TooComplex => None,
        }
    }
}

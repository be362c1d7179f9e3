//! Limits of the YAML parser, and conversion of its errors, whose texts quote the document.

use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy};

use super::document::DuplicateKeys;
use super::error::{DocumentError, Position};
use super::visit::DecodeTrace;

/// The first YAML document of a stream. A `---` or `...` at the start of a line is always a document marker.
pub(crate) fn first_document(text: &str) -> &str {
    let mut begun = false;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let marker = line.trim_end();
        let ends = marker == "..." || marker == "---" || marker.starts_with("--- ");
        if ends && begun {
            return &text[..start];
        }
        begun |= !(marker.is_empty() || marker.starts_with('#') || marker.starts_with('%') || marker == "---");
        start += line.len();
    }
    text
}

pub(super) fn options(duplicates: DuplicateKeys) -> serde_saphyr::Options {
    serde_saphyr::options! {
        // A credential has about a dozen nodes; the limits leave room for a large `config` extension.
        budget: serde_saphyr::budget! {
            max_nodes: 20_000,
            max_events: 60_000,
            max_aliases: 200,
            max_anchors: 200,
            max_recorded_anchor_events: 20_000,
            max_recorded_anchor_bytes: 4 << 20,
            max_merge_keys: 200,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 20_000,
        },
        duplicate_keys: match duplicates {
            DuplicateKeys::LastWins => DuplicateKeyPolicy::LastWins,
            DuplicateKeys::Reject => DuplicateKeyPolicy::Error,
        },
        merge_keys: MergeKeyPolicy::Merge,
        // Go's decoder implements YAML 1.1: `010` is a number and `yes` a boolean.
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

pub(super) fn large_options(bytes: usize) -> serde_saphyr::Options {
    serde_saphyr::options! {
        // Without aliases a text has at most one node and three events per byte (`[[[`), so only the expansion of
        // aliases needs a fixed limit. 20,000 users that each merge one anchor stay far below it.
        budget: serde_saphyr::budget! {
            max_nodes: bytes.saturating_add(500_000),
            max_events: bytes.saturating_mul(3).saturating_add(1_000_000),
            max_aliases: 100_000,
            max_anchors: 100_000,
            max_recorded_anchor_events: 1_000_000,
            max_recorded_anchor_bytes: 64 << 20,
            max_merge_keys: 100_000,
            max_total_scalar_bytes: bytes.saturating_mul(2).saturating_add(64 << 20),
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 500_000,
            max_alias_expansions_per_anchor: 100_000,
        },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        merge_keys: MergeKeyPolicy::Merge,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

pub(super) fn document_error(error: &serde_saphyr::Error, trace: &DecodeTrace) -> DocumentError {
    use serde_saphyr::Error as Yaml;

    let at = error.location().map_or(Position { line: 1, column: 1 }, position);
    match error {
        // Report the error in the aliased node.
        Yaml::AliasError { error, .. } => document_error(error, trace),
        Yaml::Budget { .. }
        | Yaml::AliasReplayCounterOverflow { .. }
        | Yaml::AliasReplayLimitExceeded { .. }
        | Yaml::AliasExpansionLimitExceeded { .. }
        | Yaml::AliasReplayStackDepthExceeded { .. } => DocumentError::TooComplex,
        Yaml::DuplicateMappingKey { .. } => DocumentError::DuplicateKey { at },
        Yaml::Message { .. } | Yaml::SerdeInvalidType { .. } | Yaml::SerdeInvalidValue { .. } => trace.type_error(at),
        // A scalar that contradicts its tag or is out of range is an invalid value of one field.
        Yaml::InvalidScalar { .. } | Yaml::NonFiniteFloat { .. } if trace.field.get().is_some() => trace.type_error(at),
        _ => DocumentError::Syntax { at },
    }
}

pub(super) fn position(at: serde_saphyr::Location) -> Position {
    Position {
        line: usize::try_from(at.line()).unwrap_or(usize::MAX),
        column: usize::try_from(at.column()).unwrap_or(usize::MAX),
    }
}

//! Histograms and the Prometheus text format.

mod histogram;
mod text;

pub use self::histogram::{Histogram, HistogramSnapshot};
pub use self::text::TextWriter;

//! What is counted, as Prometheus reads it: shared by whoever has something to count.

mod histogram;
mod text;

pub use self::histogram::{Histogram, Snapshot};
pub use self::text::Text;

//! Running a plugin once.

mod clock;
mod env;

pub use clock::{Clock, SystemClock};
pub use env::{Env, FixedEnv, SystemEnv};

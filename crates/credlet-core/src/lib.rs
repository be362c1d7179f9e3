//! Running a plugin once.

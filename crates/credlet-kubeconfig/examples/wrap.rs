//! Runs the exec plugins of a kubeconfig through `credlet cache`, by an edit in place:
//! `cargo run -p credlet-kubeconfig --example wrap -- FILE`.
//!
//! Comments, order and formatting of the file are kept. The previous content is saved beside it.

use std::path::Path;
use std::process::ExitCode;

use credlet_api::escape_line;
use credlet_kubeconfig::edit;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "an example for the terminal")]
fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: wrap FILE");
        return Ok(ExitCode::from(2));
    };
    let old = std::fs::read_to_string(&path)?;
    let mut new = old.clone();
    for user in edit::exec_users(&old)?.iter().filter(|user| !user.wrapped) {
        println!("{}: {}", escape_line(&user.name), escape_line(&user.plugin));
        new = edit::wrap(&new, &user.name, "credlet", &[])?.to_string();
    }
    if new != old {
        // Fails if another program has changed the file in the meantime, or holds kubectl's lock.
        let backup = edit::save(Path::new(&path), &old, &new)?;
        println!("saved {path}; backup: {}", backup.display());
    }
    Ok(ExitCode::SUCCESS)
}

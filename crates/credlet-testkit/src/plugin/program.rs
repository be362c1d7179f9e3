//! The program of the test plugin: where it is, whether it is up to date, and how it is built.
//!
//! A package that runs the plugin has an example target named `PACKAGE-test-plugin`, whose `main` is [`super::main`]. Cargo builds
//! the examples of a package with its tests, unless targets are selected by `--test`, `--lib` or `--doc`. In that case the program
//! may be missing or older than its sources, and [`program`] builds it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

use serde_json::Value;

/// Returns the program of the package whose test is running, up to date with its sources. Builds it if necessary.
///
/// # Panics
/// If `CARGO_PKG_NAME` is not set, because the test was not started by cargo, or if the program cannot be built.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let package =
            env::var("CARGO_PKG_NAME").expect("CARGO_PKG_NAME must name the package of this test; cargo sets it");
        let name = format!("{package}-test-plugin");
        let program = profile_dir().join("examples").join(&name);
        let tested =
            env::current_exe().and_then(|test| test.metadata()?.modified()).expect("the time of the test program");
        if is_current(&program, tested) { program } else { build(&package, &name) }
    })
}

/// The directory of this build: `target/debug`, or `target/TRIPLE/debug` with `--target`.
fn profile_dir() -> &'static Path {
    let out_dir = Path::new(env!("OUT_DIR"));
    out_dir.ancestors().nth(3).expect("OUT_DIR is build/PACKAGE-HASH/out in the directory of the profile")
}

/// Returns whether the program exists, was built from this source tree and is newer than the sources that the test program was
/// built from. Later edits are in neither of the two: they must not start a build in the middle of a test run. Cargo lists the
/// sources, including those of path dependencies, in a file beside the program.
fn is_current(program: &Path, tested: SystemTime) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let Some(built) = modified(program) else { return false };
    let Ok(dep_info) = fs::read_to_string(program.with_extension("d")) else { return false };
    let sources = sources(&dep_info);
    // Another checkout may use the same target directory.
    let is_from_this_tree = sources.iter().any(|source| source.starts_with(env!("CARGO_MANIFEST_DIR")));
    let is_stale = |source: &PathBuf| modified(source).is_some_and(|edited| built < edited && edited <= tested);
    is_from_this_tree && !sources.iter().any(is_stale)
}

/// Returns the sources of a dep-info file: `PROGRAM: SOURCE SOURCE …`, with `\ ` for a space in a path.
fn sources(dep_info: &str) -> Vec<PathBuf> {
    let Some((_, sources)) = dep_info.lines().next().and_then(|line| line.split_once(": ")) else { return Vec::new() };
    let sources = sources.replace("\\ ", "\0");
    sources.split_whitespace().map(|source| source.replace('\0', " ").into()).collect()
}

/// Builds the program as the test was built: same profile, target and target directory. Cargo has released the lock of that
/// directory when it runs tests. Concurrent test programs wait for each other at that lock.
fn build(package: &str, name: &str) -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let mut command = Command::new(cargo);
    command.args(["build", "--frozen", "--message-format=json-render-diagnostics", "-p", package, "--example", name]);
    let profile_dir = profile_dir();
    let profile = profile_dir.file_name().expect("a directory name");
    command.arg("--profile").arg(if profile == "debug" { OsStr::new("dev") } else { profile });
    let mut target_dir = profile_dir.parent().expect("the target directory");
    let target = env!("CREDLET_TESTKIT_TARGET");
    if target_dir.file_name() == Some(OsStr::new(target)) {
        command.args(["--target", target]);
        target_dir = target_dir.parent().expect("the target directory");
    }
    command.arg("--target-dir").arg(target_dir).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.stdin(Stdio::null()).output().expect("failed to run cargo");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "failed to build the test plugin; run: cargo build -p {package} --examples\n{stderr}"
    );
    let messages =
        output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let executable = messages.filter(|message| message["target"]["name"] == name);
    let executable = executable.filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?))).next_back();
    executable.unwrap_or_else(|| panic!("cargo reported no executable for {name}\n{stderr}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A program and its dep-info file in a temporary directory, with one source of this tree and one in the directory.
    struct BuiltProgram {
        dir: tempfile::TempDir,
        program: PathBuf,
        source: PathBuf,
    }

    impl BuiltProgram {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let (program, source) = (dir.path().join("name-test-plugin"), dir.path().join("a source.rs"));
            fs::write(&source, "").unwrap();
            fs::write(&program, "").unwrap();
            let built = Self { dir, program, source };
            built.write_sources(&[Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs")), &built.source]);
            built
        }

        fn write_sources(&self, sources: &[&Path]) {
            let sources: Vec<_> = sources.iter().map(|path| path.to_str().unwrap().replace(' ', "\\ ")).collect();
            let text = format!("{}: {}\n", self.program.display(), sources.join(" "));
            fs::write(self.program.with_extension("d"), text).unwrap();
        }

        /// Sets the time of the source, relative to the program.
        fn edit_source(&self, later: Duration) {
            let source = fs::File::options().write(true).open(&self.source).unwrap();
            source.set_modified(self.time() + later).unwrap();
        }

        fn time(&self) -> SystemTime {
            fs::metadata(&self.program).unwrap().modified().unwrap()
        }

        /// Whether it is current for a test program that was built two seconds later.
        fn is_current(&self) -> bool {
            is_current(&self.program, self.time() + Duration::from_secs(2))
        }
    }

    #[test]
    fn program_newer_than_sources_is_current() {
        assert!(BuiltProgram::new().is_current());
    }

    #[test]
    fn program_older_than_a_tested_source_is_stale() {
        let built = BuiltProgram::new();
        built.edit_source(Duration::from_secs(1));
        assert!(!built.is_current());
    }

    #[test]
    fn edit_after_the_test_was_built_is_ignored() {
        let built = BuiltProgram::new();
        built.edit_source(Duration::from_secs(3));
        assert!(built.is_current());
    }

    #[test]
    fn program_of_another_checkout_is_stale() {
        let built = BuiltProgram::new();
        built.write_sources(&[&built.source]);
        assert!(!built.is_current());
    }

    #[test]
    fn missing_program_is_stale() {
        let built = BuiltProgram::new();
        let time = built.time();
        assert!(!is_current(&built.dir.path().join("other"), time));
        fs::remove_file(built.program.with_extension("d")).unwrap();
        assert!(!built.is_current());
    }

    #[test]
    fn program_is_an_example_of_this_package() {
        assert_eq!(program().file_name().unwrap(), concat!(env!("CARGO_PKG_NAME"), "-test-plugin"));
    }
}

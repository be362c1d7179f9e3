//! Makes `OUT_DIR` and the target triple available to the library, which finds the test plugin in the same target directory.
#![expect(clippy::disallowed_methods, clippy::expect_used, reason = "the interface of build scripts")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").expect("cargo sets TARGET for build scripts");
    println!("cargo::rustc-env=CREDLET_TESTKIT_TARGET={target}");
}

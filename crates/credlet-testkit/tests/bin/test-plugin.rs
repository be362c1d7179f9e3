//! The test plugin of this package, see `credlet_testkit::plugin`.

fn main() {
    credlet_testkit::plugin::main()
}

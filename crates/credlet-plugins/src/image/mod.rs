//! Image credential providers: programs that a kubelet, or `credlet image`, asks for credentials of registries.

pub mod docker_helper;

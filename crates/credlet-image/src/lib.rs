//! The kubelet's image credential providers, usable anywhere: matching, caching, merging, docker keyring.

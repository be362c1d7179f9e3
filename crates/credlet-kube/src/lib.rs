//! kube-rs clients whose exec credentials renew and rotate by themselves.

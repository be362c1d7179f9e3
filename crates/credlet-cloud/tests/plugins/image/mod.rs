//! The image credential providers, run like a kubelet runs them.

mod acr;
mod acr_bindings;
mod acr_faults;
mod ecr;
mod ecr_faults;
mod gar;

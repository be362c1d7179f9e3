//! Ready-made Kubernetes credential plugins: a cache around any plugin, EKS, OIDC.

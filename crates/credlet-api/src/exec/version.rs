use crate::wire::version::api_versions;

api_versions! {
    /// Version of `client.authentication.k8s.io`.
    ApiVersion, UnsupportedApiVersion, "client.authentication.k8s.io" {
        /// Kubernetes 1.10 to 1.23. Old plugins still use it.
        V1alpha1 = "v1alpha1",
        /// Since Kubernetes 1.11. `interactiveMode` is optional.
        V1beta1 = "v1beta1",
        /// Since Kubernetes 1.22. `interactiveMode` is required.
        V1 = "v1",
    }
}

use crate::support::{FakeEndpoint, FakeReply, ProviderSandbox, SeenRequest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::image::ProviderApiVersion;
use credlet_cloud::image::ecr;
use serde_json::{Value, json};

pub(crate) const PRIVATE: &str = "123456789012.dkr.ecr.eu-west-3.amazonaws.com";

/// A node with access keys, an ECR API, and its password with this expiry.
pub(crate) fn node(ends: Value) -> (ProviderSandbox, FakeEndpoint, String) {
    let mut sandbox = ProviderSandbox::new(ecr::run);
    let password = sandbox.secret("password of the registry");
    let token = STANDARD.encode(format!("AWS:{password}"));
    let api = FakeEndpoint::start(move |request| {
        let given = json!({"authorizationToken": token, "expiresAt": ends, "proxyEndpoint": "https://somewhere"});
        let public = request.header("x-amz-target").starts_with("SpencerFrontendService.");
        FakeReply::Status(200, json!({"authorizationData": if public { given } else { json!([given]) }}).to_string())
    });
    let key = sandbox.secret("secret access key");
    sandbox.set("AWS_EC2_METADATA_DISABLED", "true");
    sandbox.set("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
    sandbox.set("AWS_SECRET_ACCESS_KEY", key);
    sandbox.set("AWS_ENDPOINT_URL", &api.url);
    (sandbox, api, password)
}

/// 12 hours after the test's time, like AWS.
pub(crate) fn usual() -> Value {
    json!(1_794_813_469.123)
}

fn signed_for(request: &SeenRequest) -> String {
    let scope = request.header("authorization").split('/').skip(2).take(2).collect::<Vec<_>>();
    scope.join("/")
}

#[test]
fn private_registry_gets_password_of_region() {
    let (sandbox, api, password) = node(usual());
    let run = sandbox.run_for("", &format!("{PRIVATE}/team/app"));
    assert_eq!(
        run.stdout,
        format!(
            "{{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
             \"cacheKeyType\":\"Registry\",\"cacheDuration\":\"6h0m0s\",\
             \"auth\":{{\"{PRIVATE}\":{{\"username\":\"AWS\",\"password\":\"{password}\"}}}}}}\n"
        )
    );
    let request = &api.seen()[0];
    assert_eq!((&*request.method, &*request.path, &*request.body), ("POST", "/", "{}"));
    assert_eq!(request.header("content-type"), "application/x-amz-json-1.1");
    assert_eq!(request.header("x-amz-target"), "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken");
    assert_eq!(signed_for(request), "eu-west-3/ecr");
    assert!(request.header("authorization").contains("SignedHeaders=content-type;host;x-amz-date;x-amz-target,"));
}

#[test]
fn public_registry_gets_its_password() {
    for host in ["public.ecr.aws", "ecr-public.aws.com"] {
        let (mut sandbox, api, password) = node(usual());
        sandbox.set("AWS_REGION", "eu-west-3");
        let run = sandbox.run_for("", &format!("{host}/team/app"));
        assert_eq!(run.auth(), [format!("{host} AWS:{password}")]);
        let request = &api.seen()[0];
        assert_eq!(request.header("x-amz-target"), "SpencerFrontendService.GetAuthorizationToken");
        assert_eq!(signed_for(request), "us-east-1/ecr-public");
    }
}

#[test]
fn api_endpoint_override() {
    let (mut sandbox, api, password) = node(usual());
    sandbox.set("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    sandbox.set("AWS_ENDPOINT_URL_ECR", format!("{}/ecr", api.url));
    sandbox.set("AWS_ENDPOINT_URL_ECR_PUBLIC", &api.url);
    assert_eq!(sandbox.run_for("", PRIVATE).auth(), [format!("{PRIVATE} AWS:{password}")]);
    assert_eq!(sandbox.run_for("", "public.ecr.aws/x").auth(), [format!("public.ecr.aws AWS:{password}")]);
    assert_eq!(api.seen().iter().map(|request| &*request.path).collect::<Vec<_>>(), ["/ecr/", "/"]);
}

#[test]
fn private_host_vectors() {
    let vectors: Value = serde_json::from_str(include_str!("hosts.json")).unwrap();
    let vectors = vectors["ecrPrivateHost"].as_array().unwrap();
    let (sandbox, api, password) = node(usual());
    for vector in vectors {
        let host = vector["host"].as_str().unwrap();
        let expected: Vec<_> =
            vector["match"].as_bool().unwrap().then(|| format!("{host} AWS:{password}")).into_iter().collect();
        assert_eq!(sandbox.run_for("", &format!("{host}/team/app")).auth(), expected, "{host}");
    }
    assert_eq!(api.seen().len(), vectors.iter().filter(|vector| vector["match"] == true).count());
}

#[test]
fn signs_for_region_of_each_partition() {
    for (host, region) in [
        ("123456789012.dkr.ecr.us-west-2.amazonaws.com", "us-west-2"),
        ("123456789012.dkr.ecr-fips.us-gov-east-1.amazonaws.com", "us-gov-east-1"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("123456789012.dkr.ecr.us-iso-east-1.c2s.ic.gov", "us-iso-east-1"),
        ("123456789012.dkr.ecr.us-isob-east-1.sc2s.sgov.gov", "us-isob-east-1"),
        ("123456789012.dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk", "eu-isoe-west-1"),
        ("123456789012.dkr.ecr.us-isof-south-1.csp.hci.ic.gov", "us-isof-south-1"),
        ("123456789012.dkr.ecr.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
        ("123456789012.dkr-ecr.us-west-2.on.aws", "us-west-2"),
        ("123456789012.dkr-ecr-fips.us-west-2.on.aws", "us-west-2"),
        ("123456789012.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn", "cn-north-1"),
    ] {
        let (sandbox, api, password) = node(usual());
        // Only the part before the first slash counts.
        assert_eq!(sandbox.run_for("", &format!("{host}/public.ecr.aws/x")).auth(), [format!("{host} AWS:{password}")]);
        assert_eq!(signed_for(&api.seen()[0]), format!("{region}/ecr"), "{host}");
    }
}

#[test]
fn nothing_for_lookalike_ecr_hosts() {
    let (sandbox, api, _) = node(usual());
    for host in [
        "x.dkr.ecr.us-east-1.amazonaws.com.evil.io",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com.evil.io",
        "123456789012.dkr.ecr.us-east-1.evilamazonaws.com",
        "123456789012.dkr.ecr.us-east-1.evil.amazonaws.com",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com.",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com:443",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com:8443",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com@evil.io",
        "x@123456789012.dkr.ecr.us-east-1.amazonaws.com",
        "123456789012.DKR.ECR.us-east-1.amazonaws.com",
        "123456789012.dkr.ecr.US-EAST-1.amazonaws.com",
        "123456789012.dkr.ecr.us-east-1.AmazonAWS.com",
        "123456789012.dkr.ecr.us-east-1.amazonaws.ru",
        "123456789012.dkr.ecr.us_east_1.amazonaws.com",
        "123456789012.dkr.ecr.-us-east-1.amazonaws.com",
        "123456789012.dkr.ecr..amazonaws.com",
        "123456789012.dkr.ecr.amazonaws.com",
        "123456789012.dkr.ecrfips.us-east-1.amazonaws.com",
        "123456789012.dkr_ecr.us-east-1.amazonaws.com",
        "1234567890123.dkr.ecr.us-east-1.amazonaws.com",
        "12345678901a.dkr.ecr.us-east-1.amazonaws.com",
        "٣23456789012.dkr.ecr.us-east-1.amazonaws.com",
        "a.123456789012.dkr.ecr.us-east-1.amazonaws.com",
        "https:",
        "[::1]",
        "[fd00:ec2::254]:5000",
        "169.254.169.254",
        "localhost",
        "docker.io",
        "public.ecr.aws.evil.io",
        "evilpublic.ecr.aws",
        "PUBLIC.ecr.aws",
        "public.ecr.aws:443",
        "xn--pblic-kva.ecr.aws",
    ] {
        let run = sandbox.run_for("", &format!("{host}/team/app"));
        assert_eq!((run.auth(), run.cache_duration()), (vec![], "0s".to_owned()), "{host}");
        assert_eq!(run.response()["cacheKeyType"], "Registry");
    }
    assert!(api.seen().is_empty());
}

#[test]
fn only_configured_mirrors_get_password() {
    let (sandbox, api, password) = node(usual());
    let line = format!("--registry-mirror cache.example:5000={PRIVATE} --registry-mirror m.example=docker.io");
    assert_eq!(sandbox.run_for(&line, "cache.example:5000/x").auth(), [format!("cache.example:5000 AWS:{password}")]);
    assert_eq!(signed_for(&api.seen()[0]), "eu-west-3/ecr");
    for other in ["cache.example/x", "xcache.example:5000/x", "m.example/x"] {
        assert_eq!(sandbox.run_for(&line, other).auth(), [""; 0], "{other}");
    }
    let run = sandbox.run_for("--registry-mirror nonsense", PRIVATE);
    assert!(run.stdout.is_empty() && run.stderr.contains("SOURCE=REGISTRY"), "{run:?}");
}

#[test]
fn responds_in_requested_version_with_command() {
    let (mut sandbox, _api, _) = node(usual());
    for version in [ProviderApiVersion::V1, ProviderApiVersion::V1beta1, ProviderApiVersion::V1alpha1] {
        sandbox.api_version = version;
        assert_eq!(sandbox.run_for("get-credentials", PRIVATE).response()["apiVersion"], version.as_str());
    }
}

#[test]
fn cache_duration_follows_expiry() {
    for (ends, expected) in [
        (usual(), "6h0m0s"),
        (json!(1_794_770_279), "5s"),
        // The test's time, a past time (moto), a time out of range, none.
        (json!(1_794_770_269), "0s"),
        (json!(1_420_070_400.0), "0s"),
        (json!(1e18), "0s"),
        (json!(9_000_000_000_i64), "12h0m0s"),
        (Value::Null, "0s"),
    ] {
        let (sandbox, _api, password) = node(ends.clone());
        let run = sandbox.run_for("", PRIVATE);
        assert_eq!(
            (run.auth(), &*run.cache_duration()),
            (vec![format!("{PRIVATE} AWS:{password}")], expected),
            "{ends}"
        );
    }
}

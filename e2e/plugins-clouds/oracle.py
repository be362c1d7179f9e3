"""Google's and Microsoft's own libraries get a token from the same peers, so that their questions can be laid beside ours."""
import sys

kind, argument = sys.argv[1:3]
if kind == "google":
    import google.auth
    import google.auth.iam
    import google.auth.transport.requests
    import google.oauth2.credentials

    # Its fixed addresses.
    google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT = f"{sys.argv[3]}/token"
    google.auth.iam._IAM_ENDPOINT = sys.argv[3] + "/v1/projects/-/serviceAccounts/{}:generateAccessToken"

    scopes = ["https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/userinfo.email"]
    credentials, _ = google.auth.load_credentials_from_file(argument, scopes=scopes)
    credentials.refresh(google.auth.transport.requests.Request())
    print(credentials.token)
else:
    from azure.identity import ManagedIdentityCredential

    print(ManagedIdentityCredential().get_token(f"{argument}/.default").token)

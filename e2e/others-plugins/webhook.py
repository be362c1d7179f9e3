"""Token webhook of an API server for EKS tokens, which are presigned STS URLs.

    webhook.py PORT CERTIFICATE KEY PROXY

Replies to a TokenReview. It computes the signature of the URL with botocore, compares it, and then calls the URL through PROXY,
moto's proxy for AWS host names. CLUSTER_NAME is the name of the cluster, AWS_SECRET_ACCESS_KEY the secret key of the caller.
"""

import base64
import datetime
import importlib.util
import json
import os
import re
import ssl
import sys
import urllib.parse
import urllib.request
from unittest import mock

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

import json_server

port, certificate, key, proxy = sys.argv[1:]
SECRET, CLUSTER = os.environ["AWS_SECRET_ACCESS_KEY"], os.environ["CLUSTER_NAME"]
aws = ssl.create_default_context(cafile=importlib.util.find_spec("moto.moto_proxy").submodule_search_locations[0] + "/ca.crt")
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"https": proxy}), urllib.request.HTTPSHandler(context=aws))


def identity(token):
    """Return the ARN of the caller. Raise an exception if the token is invalid."""
    prefix, _, encoded = token.partition(".")
    if prefix != "k8s-aws-v1":
        raise ValueError("not an EKS token")
    url = urllib.parse.urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    if url.scheme != "https" or not re.fullmatch(r"sts(\.[a-z0-9-]+)?\.amazonaws\.com", url.netloc) or url.path != "/":
        raise ValueError("not an STS URL")
    query = dict(urllib.parse.parse_qsl(url.query))
    if query["Action"] != "GetCallerIdentity":
        raise ValueError("not GetCallerIdentity")
    if query["X-Amz-Signature"] != signature(url.netloc, query):
        raise ValueError("wrong signature")
    request = urllib.request.Request(url.geturl(), headers={"x-k8s-aws-id": CLUSTER})
    return re.search(r"<Arn>(.*)</Arn>", opener.open(request).read().decode()).group(1)


def signature(host, query):
    """Return the signature that botocore computes for these query parameters."""
    access_key, _, region, service, _ = query["X-Amz-Credential"].split("/")
    then = datetime.datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ")
    plain = urllib.parse.urlencode({name: value for name, value in query.items() if not name.startswith("X-Amz-")})
    request = AWSRequest("GET", f"https://{host}/?{plain}", headers={"x-k8s-aws-id": CLUSTER})
    signer = SigV4QueryAuth(Credentials(access_key, SECRET), service, region, expires=int(query["X-Amz-Expires"]))
    with mock.patch("botocore.auth.get_current_datetime", return_value=then):
        signer.add_auth(request)
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(request.url).query))["X-Amz-Signature"]


class Handler(json_server.Handler):
    def do_POST(self):
        review = json.loads(self.body())
        try:
            status = {"authenticated": True, "user": {"username": identity(review["spec"]["token"])}}
        except Exception as error:  # Any error means that the token is invalid.
            print("rejected:", repr(error), flush=True)
            status = {"authenticated": False}
        self.reply(200, {"apiVersion": review["apiVersion"], "kind": "TokenReview", "status": status})


json_server.serve(port, Handler, certificate, key)

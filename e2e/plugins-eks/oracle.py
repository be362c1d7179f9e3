"""Compares a token of credlet with the one that awscli's code makes for the same second.

    oracle.py [--region REGION] [--cluster-name NAME | --cluster-id ID] <TOKEN

Exits with 1 and prints both URLs if they differ.
"""

import argparse
import base64
import datetime
import re
import sys
from unittest import mock

import awscli.clidriver
from awscli.customizations.eks.get_token import STSClientFactory, TokenGenerator

arguments = argparse.ArgumentParser()
arguments.add_argument("--region")
arguments.add_argument("--cluster-name", "--cluster-id")
arguments = arguments.parse_args()

ours = sys.stdin.read().strip()
encoded = ours.removeprefix("k8s-aws-v1.")
url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
second = re.search(r"X-Amz-Date=(\w+)", url).group(1)
then = datetime.datetime.strptime(second, "%Y%m%dT%H%M%SZ")

session = awscli.clidriver.create_clidriver().session
with mock.patch("botocore.auth.get_current_datetime", return_value=then):
    theirs = TokenGenerator(STSClientFactory(session).get_sts_client(arguments.region)).get_token(arguments.cluster_name)
if ours != theirs:
    encoded = theirs.removeprefix("k8s-aws-v1.")
    print("ours  ", url)
    print("theirs", base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    sys.exit(1)

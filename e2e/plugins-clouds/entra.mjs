// Fake Entra ID: npm's oidc-provider with the URL paths of an Entra tenant. Its applications authenticate with a secret, a
// certificate or a federated credential.
//
//   node entra.mjs PORT TENANT SERVER-ID SECONDS CERTIFICATE-JWK CI-PUBLIC-KEY LOG
//
// SERVER-ID is the audience of access tokens, SECONDS their lifetime. CERTIFICATE-JWK is the public key of the application
// `certified`, CI-PUBLIC-KEY a PEM file with the key whose ID tokens the application `workload` accepts (see azure_peer.py). Prints
// `ready` when it serves, and appends method and path of each request to LOG.
import * as oidc from 'oidc-provider';
import { appendFileSync, readFileSync } from 'node:fs';
import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import { createServer } from 'node:http';

const [port, tenant, server, life, certificate, ciKeyFile, log] = process.argv.slice(2);
const host = `http://127.0.0.1:${port}`;
const base = `${host}/${tenant}`;
const scope = `${server}/.default`;
const device = 'urn:ietf:params:oauth:grant-type:device_code';
const signingKey = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
const ciKey = createPublicKey(readFileSync(ciKeyFile));
const robot = { grant_types: ['client_credentials'], response_types: [], redirect_uris: [], scope };

const provider = new oidc.Provider(`${base}/v2.0`, {
  clients: [
    {
      client_id: '80faf920-1908-4b52-b5ef-a8e7bedfc67a',
      token_endpoint_auth_method: 'none',
      application_type: 'native',
      grant_types: ['authorization_code', 'refresh_token', device],
      response_types: ['code'],
      redirect_uris: ['http://localhost', 'http://127.0.0.1'],
    },
    { ...robot, client_id: 'spn', client_secret: 's3cr3t-of-a-principal', token_endpoint_auth_method: 'client_secret_post' },
    {
      ...robot,
      client_id: 'certified',
      token_endpoint_auth_method: 'private_key_jwt',
      token_endpoint_auth_signing_alg: 'PS256',
      jwks: { keys: [JSON.parse(certificate)] },
    },
  ],
  jwks: { keys: [{ ...signingKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: 'e2e' }] },
  cookies: { keys: ['e2e'] },
  scopes: ['openid', 'profile', 'offline_access', scope],
  routes: {
    token: `/${tenant}/oauth2/v2.0/token`,
    authorization: `/${tenant}/oauth2/v2.0/authorize`,
    device_authorization: `/${tenant}/oauth2/v2.0/devicecode`,
    code_verification: `/${tenant}/device`,
    jwks: `/${tenant}/discovery/v2.0/keys`,
  },
  enabledJWA: { clientAuthSigningAlgValues: ['PS256', 'RS256'] },
  pkce: { required: () => true },
  features: {
    devInteractions: { enabled: true },
    deviceFlow: { enabled: true },
    clientCredentials: { enabled: true },
    // Access tokens of Entra are JWTs whose audience is the application in the scope.
    resourceIndicators: {
      enabled: true,
      defaultResource: () => `api://${server}`,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope, audience: server, accessTokenTTL: Number(life), accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }),
    },
  },
  issueRefreshToken: async (ctx, client, code) => client.grantTypeAllowed('refresh_token') && code.scopes.has('offline_access'),
  rotateRefreshToken: true,
  ttl: {
    IdToken: Number(life), AccessToken: Number(life), ClientCredentials: Number(life), AuthorizationCode: 60, DeviceCode: 120,
    RefreshToken: 3600, Session: 3600, Grant: 3600, Interaction: 600,
  },
  findAccount: async (ctx, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
});
provider.on('server_error', (ctx, error) => console.error(error));

// Whether the application `workload` accepts this ID token of the CI as its federated credential.
function isFederatedCredential(token) {
  const [head, claims, signature] = token.split('.');
  const valid = verify('sha256', Buffer.from(`${head}.${claims}`), ciKey, Buffer.from(signature ?? '', 'base64url'));
  const { sub, aud, exp } = valid ? JSON.parse(Buffer.from(claims, 'base64url')) : {};
  return sub === 'repo:acme/app' && aud === 'api://AzureADTokenExchange' && exp > Date.now() / 1000;
}

const reply = (response, status, value) => {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(value));
};
const handle = provider.callback();
createServer(async (request, response) => {
  const url = new URL(request.url, host);
  appendFileSync(log, `${request.method} ${url.pathname}\n`);
  if (url.pathname.endsWith('/v2.0/.well-known/openid-configuration')) {
    const document = {
      issuer: `${base}/v2.0`,
      authorization_endpoint: `${base}/oauth2/v2.0/authorize`,
      token_endpoint: `${base}/oauth2/v2.0/token`,
      device_authorization_endpoint: `${base}/oauth2/v2.0/devicecode`,
      jwks_uri: `${base}/discovery/v2.0/keys`,
      token_endpoint_auth_methods_supported: ['client_secret_post', 'private_key_jwt', 'client_secret_basic'],
    };
    return reply(response, 200, document);
  }
  const known = [`/${tenant}/`, '/interaction/'].some((path) => url.pathname.startsWith(path));
  if (!known) return reply(response, 400, { error: 'invalid_request', error_codes: [90002] });
  // oidc-provider does not support prompt=select_account. Entra shows a list of accounts and asks only for missing consent.
  request.url = request.url.replace('prompt=select_account', 'prompt=consent');
  if (request.method === 'POST' && url.pathname.endsWith('/token')) {
    let body = '';
    for await (const chunk of request) body += chunk;
    const fields = new URLSearchParams(body);
    if (fields.get('client_id') === 'workload') {
      if (!isFederatedCredential(fields.get('client_assertion') ?? '')) return reply(response, 401, { error: 'invalid_client', error_codes: [70021] });
      body = new URLSearchParams({ grant_type: 'client_credentials', client_id: 'spn', client_secret: 's3cr3t-of-a-principal', scope: fields.get('scope') }).toString();
    }
    request.body = body;
  }
  handle(request, response);
}).listen(Number(port), '127.0.0.1', () => console.log('ready'));

// OIDC issuer on 127.0.0.1, npm's oidc-provider: code + PKCE, device flow, rotating refresh tokens, client credentials,
// revocation.
//
//   node provider.mjs PORT SECONDS [CERTIFICATE KEY]
//
// SECONDS is the lifetime of ID tokens. With CERTIFICATE and KEY it speaks TLS. Prints `ready` when it serves.
import * as oidc from 'oidc-provider';
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';

const port = Number(process.argv[2]);
const life = Number(process.argv[3]);
const jwk = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
const device = 'urn:ietf:params:oauth:grant-type:device_code';
const [cert, key] = process.argv.slice(4).map((file) => readFileSync(file));
const issuer = `${cert ? 'https' : 'http'}://127.0.0.1:${port}`;

const provider = new oidc.Provider(issuer, {
  clients: [
    {
      client_id: 'kube',
      client_name: 'Kubernetes',
      token_endpoint_auth_method: 'none',
      application_type: 'native',
      grant_types: ['authorization_code', 'refresh_token', device],
      response_types: ['code'],
      redirect_uris: ['http://localhost', 'http://127.0.0.1'],
    },
    {
      client_id: 'robot',
      client_secret: 's3cr3t-of-a-robot',
      grant_types: ['client_credentials'],
      response_types: [],
      redirect_uris: [],
    },
  ],
  jwks: { keys: [{ ...jwk, use: 'sig', alg: 'RS256', kid: 'e2e' }] },
  cookies: { keys: ['e2e'] },
  pkce: { required: () => true },
  features: {
    devInteractions: { enabled: true },
    deviceFlow: { enabled: true },
    clientCredentials: { enabled: true },
    revocation: { enabled: true },
  },
  claims: { openid: ['sub'], email: ['email'], groups: ['groups'] },
  scopes: ['openid', 'offline_access', 'email', 'groups'],
  conformIdTokenClaims: false,
  issueRefreshToken: async (ctx, client, code) =>
    client.grantTypeAllowed('refresh_token') && code.scopes.has('offline_access'),
  rotateRefreshToken: true,
  ttl: {
    IdToken: life, AccessToken: life, ClientCredentials: life, AuthorizationCode: 60, DeviceCode: 120,
    RefreshToken: 3600, Session: 3600, Grant: 3600, Interaction: 600,
  },
  findAccount: async (ctx, id) => ({
    accountId: id,
    claims: async () => ({ sub: id, email: `${id}@example.test`, groups: ['dev'] }),
  }),
});
provider.on('server_error', (ctx, error) => console.error(error));
const server = cert ? https.createServer({ cert, key }, provider.callback()) : http.createServer(provider.callback());
server.listen(port, '127.0.0.1', () => console.log('ready'));

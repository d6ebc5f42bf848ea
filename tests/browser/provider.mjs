// A real OpenID provider (npm oidc-provider), for one client, whose address for the way back is the first argument. It prints its
// issuer. An account is whatever is typed as login: eva.staff is Eva in the group staff.
import { createServer } from "node:http";
import { Provider } from "oidc-provider";

const [redirectUri] = process.argv.slice(2);
const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: "keywright", client_secret: "a secret of tests", redirect_uris: [redirectUri] }],
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["groups"] },
    pkce: { required: () => true },
    cookies: { keys: ["of tests"] },
    ttl: { AccessToken: 60, AuthorizationCode: 60, Grant: 600, IdToken: 60, Interaction: 600, Session: 600 },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => {
        const [name, ...groups] = id.split(".");
        return { sub: id, email: `${name}@example.com`, email_verified: true, groups };
      },
    }),
  });
  server.on("request", provider.callback());
  console.log(issuer);
});

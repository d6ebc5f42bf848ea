// What a shop does, with the client that @hey-api/openapi-ts makes: SERVER and TOKEN are in the environment.
import { createLicense, createPolicy, createProduct, getLicense, listLicenses, updateLicense } from "./generated";
import type { License, Problem } from "./generated";
import { client } from "./generated/client.gen";

client.setConfig({ baseUrl: `${process.env.SERVER}/v3`, auth: () => process.env.TOKEN });

function expect<T>(answer: { data?: T; error?: Problem }): T {
  if (answer.data === undefined) throw new Error(answer.error?.detail);
  return answer.data;
}

const product = expect(await createProduct({ body: { name: "Paint" } }));
const terms = { max_activations: 3, entitlements: ["export"] };
const policy = expect(await createPolicy({ body: { name: "Yearly", product_id: product.id, terms } }));
const made = expect(await createLicense({ body: { policy_id: policy.id, quantity: 3 } }));
if (!("items" in made) || made.items.length !== 3) throw new Error("no items");

const found: License[] = [];
let cursor: string | undefined;
do {
  const page = expect(await listLicenses({ query: { product_id: product.id, limit: 2, cursor } }));
  found.push(...page.items);
  cursor = page.next_cursor ?? undefined;
} while (cursor !== undefined);
if (found.length !== 3) throw new Error(`${found.length} licenses`);

const changes = { terms: { max_activations: 5 }, metadata: { note: "gift" } };
const changed = expect(await updateLicense({ path: { license_id: found[0]!.id }, body: changes }));
if (changed.terms.max_activations !== 5 || changed.metadata.note !== "gift") throw new Error("not changed");

const refused = await getLicense({ path: { license_id: 2 ** 53 } });
console.log(refused.error?.status, refused.error?.code === "not_found");

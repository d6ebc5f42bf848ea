// What a shop does, with the types that openapi-typescript makes: SERVER and TOKEN are in the environment.
import createClient from "openapi-fetch";
import type { components, paths } from "./generated/schema";

type License = components["schemas"]["License"];
const headers = { Authorization: `Bearer ${process.env.TOKEN}` };
const client = createClient<paths>({ baseUrl: `${process.env.SERVER}/v3`, headers });

function expect<T>(answer: { data?: T; error?: components["schemas"]["Problem"] }): T {
  if (answer.data === undefined) throw new Error(answer.error?.detail);
  return answer.data;
}

const product = expect(await client.POST("/products", { body: { name: "Paint" } }));
const terms = { max_activations: 3, entitlements: ["export"] };
const policy = expect(
  await client.POST("/policies", { body: { name: "Yearly", product_id: product.id, terms } }),
);
const made = expect(await client.POST("/licenses", { body: { policy_id: policy.id, quantity: 3 } }));
if (!("items" in made) || made.items.length !== 3) throw new Error("no items");

const found: License[] = [];
let cursor: string | undefined;
do {
  const query = { product_id: product.id, limit: 2, cursor };
  const page = expect(await client.GET("/licenses", { params: { query } }));
  found.push(...page.items);
  cursor = page.next_cursor ?? undefined;
} while (cursor !== undefined);
if (found.length !== 3) throw new Error(`${found.length} licenses`);

const changes = { terms: { max_activations: 5 }, metadata: { note: "gift" } };
const path = { license_id: found[0]!.id };
const changed = expect(await client.PATCH("/licenses/{license_id}", { params: { path }, body: changes }));
if (changed.terms.max_activations !== 5 || changed.metadata.note !== "gift") throw new Error("not changed");

const refused = await client.GET("/licenses/{license_id}", { params: { path: { license_id: 2 ** 53 } } });
console.log(refused.error?.status, refused.error?.code === "not_found");

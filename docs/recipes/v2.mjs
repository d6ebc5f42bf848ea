// The four calls of v2, with nothing but Node.js 18: node v2.mjs URL LICENSE-KEY

/** The answer's data. Throws an Error with the server's sentence for a refusal. */
async function call(url, action, licenseKey, parameters = {}) {
  const query = new URLSearchParams(parameters);
  const address = `${url}/wp-json/lmfwc/v2/licenses/${action}/${encodeURIComponent(licenseKey)}?${query}`;
  const answer = await fetch(address, { signal: AbortSignal.timeout(10_000) });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.message);
  return body.data;
}

const [url, licenseKey] = process.argv.slice(2);
const activated = await call(url, "activate", licenseKey, { label: "My computer" });
const { token } = activated.activationData;
console.log("activated:", activated.timesActivated);
console.log("validated:", (await call(url, "validate", licenseKey)).timesActivated);
console.log("deactivated:", (await call(url, "deactivate", licenseKey, { token })).timesActivated);
console.log("reactivated:", (await call(url, "activate", licenseKey, { token })).timesActivated);

// Activates, and checks: node example.mjs URL LICENSE_KEY PUBLIC_KEY FILE DEVICE; prints a line of JSON for each.
import { fileStore, Keywright } from "./keywright.js";

const [url, licenseKey, publicKey, path, fingerprint] = process.argv.slice(2);
const keywright = new Keywright({ url, publicKeys: [publicKey], store: await fileStore(path), fingerprint });
const show = ({ valid, state, detail }) => console.log(JSON.stringify({ valid, state, detail }));
show(await keywright.check());
show(await keywright.activate(licenseKey, { name: "Example" }));
show(await keywright.check());

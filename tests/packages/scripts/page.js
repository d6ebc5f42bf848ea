import { browserStore, Keywright } from "keywright-client/browser";

const publicKeys = ["eUCpOtsXO3ow0Ga2z9i8SE7Q9NcRZfWNQvKTTQ7A9i4"];
const keywright = new Keywright({ url: "http://127.0.0.1:9", publicKeys, store: browserStore() });
keywright.check().then((status) => (document.title = status.state));

// The page of the lab follows what its hosts write into the store, which sends no events.
import { reload } from "./reload.js";

const LOOK_MS = 3000;
setInterval(() => document.hidden || reload("lab").catch(() => {}), LOOK_MS);

import { el, fill } from "./dom.js";
export class ClusterView { constructor(main){ fill(main, el("p",{},"later")); } close(){} async update(){} }

// Shows the events of the stream. Each event is the HTML of the overview. The script changes the
// page into it node by node, so that focus, scrolling and open details stay.
"use strict";
(() => {
	const shown = document.getElementById("informers");
	const live = document.getElementById("live");
	const hold = document.getElementById("hold");
	let held = false;
	let answers = false;
	let latest = "";

	// tell shows whether the page is live. The flow stands still unless it is.
	function tell() {
		const text = !answers ? "the program does not answer" : held ? "frozen" : "live";
		if (live.textContent !== text) live.textContent = text;
		live.classList.toggle("on", answers && !held);
		shown.classList.toggle("still", !answers || held);
		hold.textContent = held ? "Go on" : "Freeze";
	}

	// freeze stops the updates of the page, or continues them.
	function freeze(wanted) {
		if (wanted === held) return;
		held = wanted;
		tell();
		if (!held && latest) show();
	}

	function same(a, b) {
		return a.nodeType === b.nodeType && a.nodeName === b.nodeName &&
			(a.nodeType !== Node.ELEMENT_NODE || a.getAttribute("data-key") === b.getAttribute("data-key"));
	}

	// become gives a node the attributes and children of another one.
	function become(node, wanted) {
		if (node.nodeType !== Node.ELEMENT_NODE) {
			if (node.nodeValue !== wanted.nodeValue) node.nodeValue = wanted.nodeValue;
			return;
		}
		for (const { name, value } of wanted.attributes) {
			if (name === "open") continue; // only the reader opens and closes details
			if (node.getAttribute(name) !== value) node.setAttribute(name, value);
		}
		for (const { name } of [...node.attributes]) {
			if (name !== "open" && !wanted.hasAttribute(name)) node.removeAttribute(name);
		}
		children(node, wanted);
	}

	function children(node, wanted) {
		let next = node.firstChild;
		for (const child of [...wanted.childNodes]) {
			let match = next;
			while (match && !same(match, child)) match = match.nextSibling;
			if (!match) {
				node.insertBefore(child, next);
				continue;
			}
			while (next !== match) {
				const gone = next;
				next = next.nextSibling;
				gone.remove();
			}
			become(match, child);
			next = match.nextSibling;
		}
		while (next) {
			const gone = next;
			next = next.nextSibling;
			gone.remove();
		}
	}

	function show() {
		const parsed = new DOMParser().parseFromString("<main>" + latest + "</main>", "text/html");
		children(shown, parsed.querySelector("main"));
	}

	hold.hidden = false;
	hold.addEventListener("click", () => freeze(!held));
	// A page of the same site that shows this one in a frame can freeze it.
	window.addEventListener("message", (event) => {
		if (event.origin === location.origin && typeof event.data?.freeze === "boolean") freeze(event.data.freeze);
	});

	// A hidden page closes its stream, because a browser opens few connections to a server.
	let stream = null;
	function listen() {
		if (document.hidden) {
			if (stream) stream.close();
			stream = null;
			return;
		}
		if (stream) return;
		stream = new EventSource("stream");
		stream.addEventListener("message", (event) => {
			latest = event.data;
			answers = true;
			tell();
			if (!held) show();
		});
		stream.addEventListener("error", () => {
			answers = false;
			tell();
		});
	}
	document.addEventListener("visibilitychange", listen);
	listen();
})();

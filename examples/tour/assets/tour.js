// Shows how the pods of a step travel, and then the answer. The focus stays on its button. Without scripts, each step is
// a page of its own.
"use strict";
(() => {
	const $ = (id) => document.getElementById(id);
	const calm = matchMedia("(prefers-reduced-motion: reduce)");
	let hurry = null; // lets what moves arrive; null while nothing moves

	// go gets a step and shows it. Pressed again while pods travel, a button only lets them arrive.
	async function go(address, options) {
		if (hurry) return hurry();
		const skip = new AbortController();
		hurry = () => skip.abort();
		if (calm.matches || !options) skip.abort(); // nothing travels
		$("picture").ariaBusy = "true";
		await show(address, options, skip.signal);
		$("picture").ariaBusy = "false";
		hurry = null;
	}

	async function show(address, options, signal) {
		let page;
		try {
			const answer = await fetch(address, options);
			const text = await answer.text();
			if (!answer.ok) throw new Error(text);
			page = new DOMParser().parseFromString(text, "text/html");
			history.pushState(null, "", answer.url);
		} catch (error) {
			$("at").textContent = "The tour has ended: " + error.message;
			return;
		}
		scrollTo(0, 0); // to the picture
		await play(page, signal);
		for (const there of page.querySelectorAll("nav button")) {
			const here = $(there.id);
			here.value = there.value;
			here.ariaDisabled = there.ariaDisabled;
		}
		for (const id of ["at", "step"]) $(id).replaceChildren(...page.getElementById(id).childNodes);
	}

	async function play(page, signal) {
		$("moved").replaceChildren();
		draw(page.getElementById("before"));
		for (const item of [...page.querySelectorAll("#moved li")]) {
			for (const row of JSON.parse(item.dataset.flights) ?? []) {
				if (!signal.aborted) await Promise.all(row.map((flight) => fly(flight, signal)));
			}
			draw(item.querySelector("template"));
			$("moved").append(item); // its text is announced
			if (!signal.aborted) await pause(400, signal);
		}
	}

	function draw(template) {
		$("picture").replaceChildren(document.importNode(template.content, true));
	}

	// fly moves the shape of a pod from a place to another, or to the event there that it merges into.
	function fly({ pod, from, to }, signal) {
		const start = spot(from, pod), end = spot(to, pod);
		if (!start || !end) return;
		const shape = document.createElementNS("http://www.w3.org/2000/svg", "svg");
		shape.setAttribute("class", "flying " + pod);
		shape.innerHTML = `<use href="#${pod}"/>`;
		document.body.append(shape);
		const at = ({ x, y }) => ({ transform: `translate(${x}px, ${y}px)` });
		const animation = shape.animate([at(start), at(end)], { duration: 600, easing: "ease-in-out" });
		signal.addEventListener("abort", () => animation.finish());
		return animation.finished.then(() => shape.remove());
	}

	function spot(name, pod) {
		const place = document.querySelector(`[data-place="${name}"]`);
		return (place?.querySelector(`[data-pod="${pod}"] svg`) ?? place?.querySelector("ul, p"))?.getBoundingClientRect();
	}

	function pause(milliseconds, signal) {
		return new Promise((resolve) => {
			setTimeout(resolve, milliseconds);
			signal.addEventListener("abort", resolve);
		});
	}

	document.addEventListener("submit", (event) => {
		event.preventDefault();
		const { id, value } = event.submitter;
		if (event.submitter.getAttribute("aria-disabled") === "true") return;
		if (id === "back") go("./?step=" + value);
		else go(id, { method: "POST", body: new URLSearchParams(id === "next" ? { step: value } : {}) });
	});
	document.addEventListener("keydown", (event) => {
		if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
		if (event.key === "ArrowRight") $("next").click();
		if (event.key === "ArrowLeft") $("back").click();
	});
	addEventListener("popstate", () => location.reload());
})();

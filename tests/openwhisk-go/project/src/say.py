def main(params):
    return {"said": params.get("text", "nothing").lower(), "by": (params.get("baker") or {}).get("name"), "note": params.get("note")}

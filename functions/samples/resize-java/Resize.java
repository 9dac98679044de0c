import flint.Response;
import java.io.IOException;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Makes a thumbnail of the JPEG or PNG picture in the request body.
 *
 * <ul>
 *   <li>request: the picture; query `max` = longest side of the thumbnail in pixels (default 128)
 *   <li>response: the thumbnail, in the format of the picture; never larger than the picture
 * </ul>
 */
public class Resize {
    private static final Object DEFAULT_MAX = 128;
    private static final Pattern MAX_IN_QUERY = Pattern.compile("(?:^|&)max=([^&]*)");
    private static final Pattern WHOLE_NUMBER = Pattern.compile("0*[1-9][0-9]{0,8}");

    public static Response main(Map<String, Object> params) throws IOException {
        String max = requestedMax(params);
        if (!WHOLE_NUMBER.matcher(max).matches()) return refuse("max must be a whole number of pixels, 1 or more");
        if (!(params.get("body") instanceof byte[] picture)) return refuse("the request body is neither a JPEG nor a PNG picture");
        return Thumbnail.of(picture, Integer.parseInt(max))
                .map(thumbnail -> Response.of(thumbnail.bytes(), thumbnail.contentType()))
                .orElseGet(() -> refuse("the request body is neither a JPEG nor a PNG picture"));
    }

    private static String requestedMax(Map<String, Object> params) {
        if (params.get("query") instanceof String query) {
            Matcher found = MAX_IN_QUERY.matcher(query);
            if (found.find()) return found.group(1);
        }
        return params.getOrDefault("max", DEFAULT_MAX).toString();
    }

    private static Response refuse(String reason) {
        return Response.of("{\"error\": \"" + reason + "\"}", "application/json").status(400);
    }
}
